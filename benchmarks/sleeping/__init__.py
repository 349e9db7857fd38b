"""A server with the real HTTP, admission and scheduler, whose device workers sleep.

A worker runs the product's loop and engine. Only its model is replaced: a runner sleeps for the
time of each decode step and gives every sentence back as its own translation. A replica then needs
little of a core, so one machine can run many replicas, each with the rate of a given device.
"""
