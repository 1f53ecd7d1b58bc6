"""Processes: children, forks, deadlines, and web applications on a port.

    child_process        a child process with a pipe, which ends with its parent and takes its own children along
    concurrent_process   many calls at a time to a function in a child process
    deadlines            one call at a time with a deadline, on a thread or in a child process
    forks                copies of this process that work beside it
    bounded_fork         a copy of this process under limits of time and memory
    failures             exceptions of foreign code in a form that reaches the caller
    serving              a web application on a port, behind `request_guard`; `serving_workers` adds processes
    memory_use           the peak memory of this process
    tracing              spans of what is done, for OpenTelemetry
    garbage_collection   the frequency of Python's garbage collector

The folder imports no other folder of turncredit: tools, environments and agents stand on it.
"""
