"""How people watch and steer jobs: command line, REST server, web page, queryable state, metrics endpoint.

Nothing in a job depends on this package.
"""
