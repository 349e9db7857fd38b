"""Turns references (`hf:owner/name`, `firefox:en-de`, a folder) into files of models on disk.

Each file imports only from the files above it, except for the last four, which use the network and
which `commands` imports inside functions.

    errors       the two errors
    files        published and stored files, with their checksums
    references   names of models, and manifests
    cache        the folder of pulled models, with their records
    locate       finds the models to serve on disk, and describes them
    commands     the command `regard models`; finds the models of a server before it starts
    download     downloads one file
    hub          Hugging Face's registry (huggingface_hub)
    firefox      Mozilla's registry
    pull         fetches the files of a reference into the cache
"""
