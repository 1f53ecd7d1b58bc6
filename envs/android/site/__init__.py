"""A phone in the browser: a page with the phone in its frame, beside its adb port.

    inputs           what a person does to the phone
    action_writer    inputs -> actions of the environment, by trying them
    player           one phone, its task, the steps so far, the verdict
    reasons          the judge's reasons in words
    app              the FastAPI application
    page/            HTML, CSS and JavaScript

The packages of the extra `serve` are imported at the first use.
"""
