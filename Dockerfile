# Two images of hocket. Kernels are built at first use by g++ (on a GPU by Triton, which needs a C compiler too).
#
#   docker build --target cpu -t hocket:cpu .
#   docker build --target cuda -t hocket:cuda .      # run with --gpus all; the driver is the host's
#   docker run --rm -v "$PWD:/work" hocket:cpu train --task sums
#
# EXTRAS are those of docs/install.md: --build-arg EXTRAS=laptop,serve,cluster

FROM python:3.11-slim AS base
RUN apt-get update \
    && apt-get install -y --no-install-recommends g++ libgomp1 \
    && rm -rf /var/lib/apt/lists/*
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONUNBUFFERED=1
WORKDIR /src
COPY constraints.txt ./
# Runs are written to /work, as any user.
RUN mkdir -m 777 /work
ENV HOME=/work

FROM base AS cpu
ARG EXTRAS=laptop,serve,cluster
# Torch first and by exact pin, so that no other package pulls another build of it.
RUN pip install --index-url https://download.pytorch.org/whl/cpu "$(grep '^torch==' constraints.txt)"
COPY pyproject.toml README.md LICENSE MANIFEST.in ./
COPY hocket ./hocket
RUN pip install -c constraints.txt ".[$EXTRAS]"
WORKDIR /work
ENTRYPOINT ["hocket"]

FROM base AS cuda
ARG EXTRAS=laptop,serve,cluster
# The build for CUDA, which brings CUDA's libraries and Triton; another version of CUDA: --build-arg TORCH_INDEX=URL
ARG TORCH_INDEX=https://pypi.org/simple
RUN pip install --index-url "$TORCH_INDEX" "$(grep '^torch==' constraints.txt)"
COPY pyproject.toml README.md LICENSE MANIFEST.in ./
COPY hocket ./hocket
RUN pip install -c constraints.txt ".[$EXTRAS]"
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
WORKDIR /work
ENTRYPOINT ["hocket"]
