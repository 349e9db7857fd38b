"""From a reference (`hf:owner/name`, `firefox:en-de`, a folder) to a model's files on disk.

Files, each importing only from those above it:

    errors       the error tree
    references   how a model is named
    remote       what a registry says of a model: files, sizes, sums
    manifest     a TOML file of references with sums, device and dtype
    http_client  GET with patience
    hub          Hugging Face's registry
    firefox      Mozilla's
    download     one file: resumed, checked, put into place whole
    cache        which pulled files lie where, and their sums
    pull         a reference -> files in the cache
    locate       what the server starts from: never the network
    describe     what a model on disk is
    progress     bars
    commands     regard models
"""
