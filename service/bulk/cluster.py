"""Runs the shards of a job with Ray Data.

Ray Data moves the indices of shards, not rows: an actor reads the rows of a shard and writes their
results. Memory therefore does not grow with the size of the job. A shard is computed unless its
file is in the output folder. Ray's own checkpoints and writers are not used.
"""

import importlib.util
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from service.bulk.actor import ActorSpec, ShardActor
from service.bulk.folder import OutputFolder
from service.bulk.job import Job
from service.bulk.journal import Journal
from service.bulk.rows import JobError

QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_BACKEND_LOG_LEVEL": "fatal",
    "RAY_DATA_LOG_LEVEL": "CRITICAL",
}
LOCAL = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_prestart_worker_first_driver": "0"}
"""Environment variables for Ray without a cluster.

The first variable makes Ray use the loopback address. Despite its name, it also works on Linux.
Without the second variable, Ray starts one process for each core, and no task uses these processes.
"""

OBJECT_STORE_BYTES = 200 * 1024 * 1024
SHARDS_PER_ACTOR = 2
"""Number of shards that an actor computes at a time."""

START_ATTEMPTS = 3
POLL_SECONDS = 1.0
MAX_STARTS = 5
"""Number of starts for each actor that the job allows while no chunk of rows is committed.

If all actors together start more often than MAX_STARTS times their number, the job ends with an
error. `Watch` counts a start when the actor has loaded its models.
"""


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """Options of Ray.

    Attributes:
        address: Address of a running cluster; None to start Ray on this machine.
        num_actors: Number of actors.
        cpus: Number of cores of each actor.
        gpus: Number of GPUs of each actor.
        temp: Folder of Ray's logs and sockets; None for Ray's default.
    """

    address: str | None
    num_actors: int
    cpus: int
    gpus: int
    temp: Path | None


def load_ray(is_local: bool) -> ModuleType:
    """Imports Ray, and configures it to send no usage reports and to print no log.

    Args:
        is_local: Whether Ray runs on this machine only. If so, the servers of Ray listen on the
            loopback interface.

    Raises:
        JobError: Ray is not installed.
    """
    if importlib.util.find_spec("ray") is None:
        raise JobError("`regard bulk` needs Ray, which is missing: pip install 'regard[ray]'")
    for name, value in {**QUIET, **(LOCAL if is_local else {})}.items():
        os.environ.setdefault(name, value)
    import ray

    return ray


@contextmanager
def connected(options: ClusterOptions) -> Iterator[ModuleType]:
    """Yields Ray's module, with Ray started on this machine or connected to a cluster.

    Raises:
        JobError: Ray is missing, or the cluster cannot be reached.
    """
    ray = load_ray(options.address is None)
    shared: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    local = {
        "address": "local",  # never connects to a running cluster on this machine
        # Ray reads the list of shards on an additional core. The actors reserve all other cores.
        "num_cpus": options.num_actors * options.cpus + 1,
        "num_gpus": options.num_actors * options.gpus,
        "object_store_memory": OBJECT_STORE_BYTES,
        "include_dashboard": False,
        "_temp_dir": None if options.temp is None else str(options.temp),
    }
    start(ray, shared | (local if options.address is None else {"address": options.address}))
    try:
        yield ray
    finally:
        ray.shutdown()


def start(ray: ModuleType, arguments: dict[str, Any]) -> None:
    """Starts Ray, or connects to a cluster. On a busy machine, Ray may need several attempts.

    Raises:
        JobError: Every attempt failed.
    """
    for attempt in range(1, START_ATTEMPTS + 1):
        try:
            with without_stderr():  # Ray's native code prints that its log is off
                ray.init(**arguments)
        except Exception as error:  # Ray also raises the class Exception itself
            ray.shutdown()
            if attempt == START_ATTEMPTS:
                raise JobError(
                    f"Ray cannot be used: {error}; check --address and --ray-temp"
                ) from None
        else:
            return


@contextmanager
def without_stderr() -> Iterator[None]:
    """Discards the standard error of the process, including the output of native code."""
    kept = os.dup(2)
    try:
        with open(os.devnull, "wb") as null:
            os.dup2(null.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def run(
    spec: ActorSpec,
    job: Job,
    shards: Sequence[int],
    options: ClusterOptions,
    advance: Callable[[int], object],
) -> None:
    """Computes shards, and returns when the output folder has the file of each shard.

    Args:
        spec: Folder and engine of the actors.
        job: The job.
        shards: Indices of the shards whose files are not in the output folder yet.
        options: Options of Ray.
        advance: Called every POLL_SECONDS with the number of committed rows of the job.

    Raises:
        JobError: An input has changed, the engine has failed, or too many actors have ended.
    """
    with connected(options) as ray:
        watch = Watch(OutputFolder(spec.folder), job, options)
        watch.num_machines = len([node for node in ray.nodes() if node["Alive"]])
        consumer = Consumer(results(spec, shards, options))
        consumer.start()
        while not consumer.ended.wait(POLL_SECONDS):
            advance(watch.poll())
        watch.poll()
    if consumer.error:
        raise JobError(consumer.error)


def results(spec: ActorSpec, shards: Sequence[int], options: ClusterOptions) -> Any:
    """Returns the dataset whose rows are the answers of the actors."""
    import ray.data as data

    context = data.DataContext.get_current()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    context.max_consecutive_actor_init_deaths = MAX_STARTS
    return data.from_items(
        [{"shard": index} for index in shards], override_num_blocks=len(shards)
    ).map_batches(
        ShardActor,
        fn_constructor_args=(spec,),
        batch_size=1,
        compute=data.ActorPoolStrategy(
            size=min(options.num_actors, len(shards)),
            max_tasks_in_flight_per_actor=SHARDS_PER_ACTOR + 1,
            max_concurrent_calls_per_actor=SHARDS_PER_ACTOR,
        ),
        num_cpus=options.cpus,
        num_gpus=options.gpus,
    )


class Consumer(threading.Thread):
    """Reads the answers of the actors until all have arrived or one has an error.

    Args:
        answers: Dataset of answers.

    Attributes:
        error: Reason why the job ends early; "" if there is no error.
        ended: Event that is set when the thread stops reading answers.
    """

    def __init__(self, answers: Any) -> None:
        super().__init__(daemon=True)
        self.answers = answers
        self.error = ""
        self.ended = threading.Event()

    def run(self) -> None:
        """Reads the answers."""
        try:
            for answer in self.answers.iter_rows():
                self.error = self.error or answer["error"]
                if self.error:
                    break
        except Exception as error:  # errors of Ray have many types
            last = str(error).strip().splitlines()[-1:]
            self.error = f"{type(error).__name__}: {''.join(last)}"
        finally:
            self.ended.set()


class Watch:
    """Measures the progress of a run, and records its machine time and its CPU time.

    The machine time is the duration of the run, multiplied by the number of machines. The CPU time
    is that of this process only.

    Args:
        folder: Output folder.
        job: The job.
        options: Options of Ray.
    """

    def __init__(self, folder: OutputFolder, job: Job, options: ClusterOptions) -> None:
        self.folder = folder
        self.job = job
        self.num_machines = 1
        self.max_starts = MAX_STARTS * options.num_actors
        self.journal = Journal(self.folder.journal, "run")
        self.started = time.monotonic()
        self.num_done = -1
        self.num_starts = 0

    def poll(self) -> int:
        """Records machine time and CPU time, and returns the number of committed rows.

        Raises:
            JobError: Too many actors have started since a chunk was last committed.
        """
        seconds = (time.monotonic() - self.started) * self.num_machines
        self.journal.add(machine_seconds=seconds, cpu=time.process_time())
        num_done = self.folder.num_rows_done(self.job)
        num_starts = len([*self.folder.journal.glob("actor-*")])
        if num_done != self.num_done:
            self.num_done, self.num_starts = num_done, num_starts
        elif num_starts - self.num_starts > self.max_starts:
            raise JobError(
                f"{num_starts - self.num_starts} actors were started, but no chunk was committed; "
                "see Ray's logs in its folder, by default /tmp/ray"
            )
        return num_done
