"""Monitor and control jobs: command line, REST server, web page, queryable state, metrics endpoint.

Start with ``cli/app.py`` for the command line and ``rest/app.py`` for the REST server. ``web`` is the page that this
server shows, ``queryable`` has the server and the client of queryable state, ``drivers`` finds and starts driver
processes on this machine, and ``porting`` is ``tidemill port``.

Jobs do not depend on this package: metrics are collected in ``tidemill.metrics`` and ``tidemill.runtime.observe``,
savepoints are taken in ``tidemill.runtime.driver``, and the records of ended jobs are written in
``tidemill.runtime.history``.
"""
