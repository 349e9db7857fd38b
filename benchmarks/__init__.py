"""The benchmark harness: ours and the peers in turn, in one run that anyone can repeat.

`make bench SOURCE=en.txt REFERENCE=pt.txt` is the way in. Nothing here is installed or imported by
the server.

    options        the command line
    environments   virtual environments of the peers and of matplotlib, below .bench/
    tree           CPU seconds and memory of a process and its descendants
    files          what peers need of the built-in model's files
    report         medians, ratios, Markdown tables, results as JSON
    plots          pictures of a results file (needs matplotlib)
    engines        engines without HTTP, each a subprocess
    throughput     section "offline": a file of sentences through each engine
    loadgen.c      the load generator
    load           runs it
    servers        servers, each a subprocess
    http           section "http": one sentence a POST
    embedding      section "embed": vectors of a file of sentences, without HTTP
    embedding_http section "embed-http": one sentence a POST to servers of vectors
    ours_embedding our vectors alone (a command of its own)
    start          section "start": how soon a server is ready, and its memory
    growth         section "growth": by source length, clients and resident models
    gpu            section "generate", and what a GPU is measured by
    run            the command
    offline        our engine alone, by batch size (a command of its own)
    peers/         what runs in the environment of a peer
"""
