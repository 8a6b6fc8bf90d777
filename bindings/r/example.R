# Rscript example.R net-symbol.json
library(gluino)
net <- gluino_load(commandArgs(trailingOnly = TRUE)[1])
print(net)
shape <- gluino_inputs(net)[[1]]$shape
shape[is.na(shape)] <- 2L # free extents: two
print(predict(net, array(0.5, shape)))
