"""Monitor and control jobs: command line, REST server, web page, queryable state, metrics endpoint.

Start with ``cli/app.py`` for the command line and ``rest/app.py`` for the REST server. Jobs do not depend on this
package: metrics are collected in ``tidemill.metrics`` and ``tidemill.runtime.observe``, and savepoints are taken in
``tidemill.runtime.driver``.
"""
