"""Turns references (`hf:owner/name`, `firefox:en-de`, a folder) into files of models on disk.

In the list below, each file imports only from the files above it. Only `sources` and `pull` use the
network. When a server starts, it imports `take`, which imports `commands`. `commands` imports
`sources` and `pull` inside functions, so a server without REGARD_PULL does not load them.

    errors       the error tree
    references   names of models
    files        published and stored files, with their checksums
    manifest     TOML files of references with checksums, device and dtype
    cache        the folder of pulled models, with their records
    locate       finds the models to serve on disk
    describe     tells what a model on disk does, and lists its files
    sources/     the registries: their clients and downloads
    pull         fetches the files of a reference into the cache
    commands     the command `regard models`
    take         finds the models of the settings before a server starts
"""
