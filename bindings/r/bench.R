# Microseconds of one call, the best of many rounds: Rscript bench.R net-symbol.json
library(gluino)
net <- gluino_load(commandArgs(trailingOnly = TRUE)[1])
x <- matrix(0, 1, 512)
calls <- 2000
times <- replicate(10, system.time(for (i in seq_len(calls)) predict(net, x))[["user.self"]])
cat(sprintf("{\"R\": %.3f}\n", min(times) / calls * 1e6))
