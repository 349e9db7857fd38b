"""The benchmark harness: measures Regard and other engines in turn, in a repeatable run.

The other engines are called peers. A run has sections, each with its own table. The command
`make bench SOURCE=en.txt REFERENCE=pt.txt` runs the harness. Installations have `bench/` alone.

    bench/          the command `regard bench`: its client and its load
    run             the command `python -m benchmarks.run`
    options         its command line
    environments    virtual environments of the peers and of matplotlib, below .bench/
    tree            CPU seconds and memory of a process and its descendants
    files           the built-in model's files in the forms that the peers read
    report          medians, ratios, Markdown tables, results as JSON
    plots           plots of a results file (needs matplotlib)
    engines         engines without HTTP, each a subprocess
    processes       ports, readiness and the end of subprocesses
    servers         servers, each a subprocess
    load            puts a load on a server
    throughput      sections "offline" and "generate": engines without HTTP; random weights
    shapes          section "shapes": decodes with random weights, in Regard and in CTranslate2
    http            sections "http" and "start": one sentence per POST request; memory of servers
    growth          section "growth": measures cost by source length, clients and resident models
    embedding       section "embed": embeds a file of sentences, without HTTP
    embedding_http  section "embed-http": sends one sentence per POST to embedding servers
    random_weights  models with random weights, for sections "generate" and "shapes"
    ours            Regard's engines alone, a command
    gpu             measures a GPU, or the CPU, for section "generate", a command
    compare         compares two checkouts of Regard, a command
    capacity/       the capacity model, a command (docs/capacity.md)
    peers/          modules that run in the environment of a peer
"""
