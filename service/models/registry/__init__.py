"""Turns references (`hf:owner/name`, `firefox:en-de`, a folder) into files of models on disk.

Each file imports only from the files above it in the list. Only `sources` and `pull` import a
client for the network, and only the commands import `sources` and `pull`. A server that starts
without REGARD_PULL loads neither of them.

    errors       the error tree
    references   names of models
    files        published and stored files, with their checksums
    manifest     TOML files of references with checksums, device and dtype
    cache        the folder of pulled models, with their records
    locate       the models to serve, found on disk
    describe     what a model on disk does
    sources/     the registries: their clients and downloads
    pull         from a reference to files in the cache
    commands     regard models
"""
