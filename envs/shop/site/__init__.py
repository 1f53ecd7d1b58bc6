"""The shop as a site: pages that a person likes and a browser agent can use, with the original's addresses.

    render     session -> HTML; the site and the environment's html observation read the same templates
    paths      page <-> address
    sessions   who is shopping for what; a bound on how many are kept
    app        the FastAPI application
    server     the application in a thread, on a free port

The packages of the extra `serve` are imported when something is rendered or served, never before.
"""
