"""The web page of a driver: plain files, which ask the REST server for everything they show.

``static/`` holds the files as a browser loads them: ES modules without a build step. Imports go one way:

- ``core/``: requests, elements, texts for numbers and times, addresses. ``answers.js`` has the types of what the REST
  server returns.
- ``widgets/``: parts that know nothing of jobs, as charts, dialogs and values.
- ``graph/``: the layout, the drawing and the list of the dataflow graph, and the panel of a vertex.
- ``actions/``: the buttons of a job, and the operations they start.
- ``views/``: the list of jobs, and the frame of a job with its views.
- ``main.js``: start reading here.

``make lint`` checks the types of all scripts, which are in their comments, with the TypeScript compiler
(``tools/page-check.json``). It refuses a property on an element that elements do not have: what belongs to an element
is in the closure that made it.
"""
