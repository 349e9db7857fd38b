"""A server with the real HTTP code, admission and scheduler, but with device workers that sleep.

A worker runs the product's loop and engine. Only its model is replaced: a runner sleeps for the
time of each decode step, and returns every sentence as its own translation. A replica then needs
only a small part of a core. One machine can therefore run many replicas, each with the rate of a
given device.
"""
