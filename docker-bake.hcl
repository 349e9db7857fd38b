# Builds the images of a release: `make release-images` sets the variables (docs/releases.md).
#
#   docker buildx bake --print            shows the targets
#   docker buildx bake --load --set '*.platform=linux/amd64' cpu    builds one image here
#
# Two platforms need a builder with the driver docker-container, and an emulator or a node for the
# other processor.

# Name of the images without a tag, such as registry.example.com/team/regard.
variable "IMAGE" {
  default = "regard"
}

variable "VERSION" {
  default = "0.1.0"
}

variable "REVISION" {
  default = "unknown"
}

variable "CREATED" {
  default = ""
}

variable "SOURCE" {
  default = ""
}

# A release names the base with its digest.
variable "BASE" {
  default = "docker.io/library/python:3.11-slim-bookworm"
}

variable "BASE_DIGEST" {
  default = ""
}

# Index of torch's CPU wheels, and the sums of the wheels for both platforms.
variable "CPU_INDEX" {
  default = ""
}

variable "CPU_HASHES" {
  default = ""
}

# Reference of a cache in a registry. Empty: no cache but the builder's own.
variable "CACHE" {
  default = ""
}

variable "SOURCE_DATE_EPOCH" {
  default = "0"
}

group "default" {
  targets = ["cpu", "cuda"]
}

target "image" {
  context   = "."
  platforms = ["linux/amd64", "linux/arm64"]
  args = {
    BASE              = BASE
    VERSION           = VERSION
    REVISION          = REVISION
    CREATED           = CREATED
    SOURCE            = SOURCE
    SOURCE_DATE_EPOCH = SOURCE_DATE_EPOCH
  }
  labels = {
    "org.opencontainers.image.base.digest" = BASE_DIGEST
  }
  attest = ["type=provenance,mode=max", "type=sbom"]
}

target "cpu" {
  inherits = ["image"]
  args = {
    PIP_EXTRA_INDEX_URL = CPU_INDEX
    TORCH_HASHES        = CPU_HASHES
  }
  tags       = ["${IMAGE}:${VERSION}", "${IMAGE}:latest"]
  cache-from = CACHE == "" ? [] : ["type=registry,ref=${CACHE}-cpu"]
  cache-to   = CACHE == "" ? [] : ["type=registry,ref=${CACHE}-cpu,mode=max"]
}

target "cuda" {
  inherits = ["image"]
  args = {
    APT_PACKAGES = "gcc libc6-dev"
  }
  tags       = ["${IMAGE}:${VERSION}-cuda", "${IMAGE}:cuda"]
  cache-from = CACHE == "" ? [] : ["type=registry,ref=${CACHE}-cuda"]
  cache-to   = CACHE == "" ? [] : ["type=registry,ref=${CACHE}-cuda,mode=max"]
}
