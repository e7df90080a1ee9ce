"""Monitor and control jobs: command line, REST server, web page, queryable state, metrics endpoint.

Jobs do not depend on this package.
"""
