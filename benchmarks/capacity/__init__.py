"""The capacity model: computes machines, money and waiting times from measured CPU time.

The model simulates the real scheduler in virtual time; docs/capacity.md explains it.

- `__main__`: the command `python -m benchmarks.capacity`
- `virtual_time`: a clock that replaces the event loop and the module `time` of the scheduler
- `processors`: the cores of a machine, which its processes share
- `event_loop`: the main process of a simulated server
- `worker`: a simulated device worker, which runs no model
- `simulation`: one machine, with the real scheduler in front of simulated workers
- `closed_loop`: simulated clients that each wait for their reply
- `replicas`: a trace on simulated machines behind a load balancer
- `costs`: measured CPU times, as a JSON file
- `calibration`: measures the costs of a running server
- `arrivals`: random times of requests, in calm periods and bursts
- `replay`: sends the requests of a trace to a running server
- `figures`: tables of figures, measured and simulated
- `plan`: machines and money for a number of requests a day
"""
