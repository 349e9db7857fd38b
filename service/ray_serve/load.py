"""The load of a replica, which the autoscaling of Ray Serve reads."""

from service.scheduling.scheduler import Scheduler


def waiting_tokens(scheduler: Scheduler) -> int:
    """Returns the number of source tokens of all waiting sentences and texts."""
    queues = [queue for models in scheduler.queues.values() for queue in models.values()]
    return sum(queue.interactive.tokens + queue.bulk.tokens for queue in queues)


def used_share(scheduler: Scheduler) -> float:
    """Returns the largest share of used batch rows that any model has.

    The share is 0 for a server without translation models.
    """
    counting = [kind for kind, row in scheduler.kinds.items() if row.policy.counts_rows]
    return max(
        (share(scheduler, kind, model) for kind in counting for model in scheduler.queues[kind]),
        default=0.0,
    )


def share(scheduler: Scheduler, kind: str, model: str) -> float:
    """Returns the share of a model's batch rows that its jobs use, over all workers."""
    workers = scheduler.workers.values()
    rows = sum(worker.max_rows.get(model, 0) for worker in workers)
    used = sum(worker.used[kind, model, 0] for worker in workers)
    return used / rows if rows else 0.0
