"""The benchmark harness: measures Regard and other engines in turn, in a repeatable run.

The other engines are called peers. A run has sections, each with its own table. The command
`make bench SOURCE=en.txt REFERENCE=pt.txt` runs the harness. Installations have `bench/` alone.

    bench/          the command `regard bench`: its client and its load generator
    run             the command `python -m benchmarks.run`
    options         command lines
    environments    virtual environments of the peers, below .bench/
    tree            CPU seconds and memory of a process and its descendants
    files           the built-in model's files, and files that the peers read
    processes       engines and servers in processes of their own
    contestants     the commands of Regard and of the peers
    report          medians, ratios, Markdown tables, results as JSON
    load            puts a load on a server, and measures its CPU time
    throughput      sections "offline" and "shapes": engines without HTTP
    http            sections "http" and "embed-http": servers
    embedding       section "embed": embeds a file of sentences, without HTTP
    random_weights  models with random weights
    ours            Regard's engines alone, a command
    compare         compares two checkouts of Regard, a command
    gpu             measures a GPU, or the CPU, a command; gpu_embedding is its embeddings
    bulk            measures `regard bulk` (docs/bulk.md)
    page            measures the page in a browser (docs/page.md)
    sleeping/       servers whose models sleep (docs/performance.md)
    replicas/       measures replicas behind Envoy (docs/clusters.md)
    ray_cluster     measures a Ray cluster (docs/ray.md)
    capacity/       the capacity model (docs/capacity.md)
    peers/          modules that run in the environment of a peer
"""
