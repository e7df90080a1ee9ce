"""The REST server of a driver: monitor and control its jobs over HTTP, with Flink's paths. See docs/rest.md.

Start with ``app.py``, which registers all paths. The paths are implemented in ``resources``, and their responses are
described in ``models``. ``guard.py`` checks every request. The server only calls the job client: the work is done in
``tidemill.runtime.driver`` and ``tidemill.state_processor``. The web page is ``tidemill.ops.web``.
"""
