"""The shop as a web site for people and browser agents, with WebShop's addresses.

    render           session -> HTML, for the site and the environment's html observation
    addresses        page <-> address
    session_store    the sessions of a site, and the goals of its visitors
    visits           a visitor's way as actions of the text environment
    app              the FastAPI application

The packages of the extra `serve` are imported at the first use.
"""
