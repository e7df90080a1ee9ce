"""The web page of a driver: static files that request everything they show from the REST server.

Start with ``pages.py``, which serves the files, and ``static/main.js``. The data comes from ``tidemill.ops.rest``.
``static/`` contains the files as a browser loads them: ES modules without a build step. Imports go in one direction:

- ``core/``: requests, elements, formatting of numbers and times, addresses. ``answers.js`` has the types of the
  responses of the REST server.
- ``widgets/``: components that are independent of jobs, such as charts, dialogs and values.
- ``graph/``: the layout, the drawing and the list of the dataflow graph, and the panel of a vertex.
- ``actions/``: the buttons of a job, and the operations they start.
- ``views/``: the list of jobs, and the frame of a job with its views.
- ``main.js``: the entry point.

``make lint`` checks the types of all scripts, which are in their comments, with the TypeScript compiler
(``tools/page-check.json``). It rejects custom properties on elements: data that belongs to an element is kept in the
closure that created it.
"""
