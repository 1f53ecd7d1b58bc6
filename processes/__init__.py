"""Processes: children, forks, deadlines, and web applications on a port. The folder imports none of our other folders.

child_process        a child process with a pipe, which ends with its parent and takes its own children along
concurrent_process   many calls at a time to a function in a child process
deadlines            one call at a time with a deadline, on a thread or in a child process
forks                copies of this process that work beside it
bounded_fork         a copy of this process under limits of time and memory
failures             exceptions of foreign code in a form that reaches the caller
serving              a web application on a port, behind `request_guard`; in several processes: `serving_workers`
memory_use, garbage_collection   settings and facts of one process
"""
