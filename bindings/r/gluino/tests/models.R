# The models of make_models.py, in the folder that GLUINO_TEST_MODELS names, give what Python computed.
library(gluino)

row_major <- function(values, shape) if (length(shape) < 2) values else aperm(array(values, rev(shape)), rev(seq_along(shape)))

read_cases <- function(path) {
  cases <- list()
  current <- list(input = list(), output = list())
  for (words in strsplit(readLines(path), " ")) {
    if (words[1] == "run") {
      cases <- c(cases, list(current))
      current <- list(input = list(), output = list())
      next
    }
    ndim <- as.integer(words[4])
    shape <- as.integer(words[4 + seq_len(ndim)])
    values <- as.numeric(words[-seq_len(4 + ndim)])
    if (words[3] == "int32") values <- as.integer(values)
    current[[words[1]]] <- c(current[[words[1]]], list(row_major(values, shape)))
  }
  cases
}

as_python <- function(net, cases) {
  for (case in cases) {
    outputs <- predict(net, case$input)
    if (!is.list(outputs)) outputs <- list(outputs)
    stopifnot(length(outputs) == length(case$output))
    for (i in seq_along(outputs)) {
      stopifnot(identical(dim(outputs[[i]]), dim(case$output[[i]])), all(abs(outputs[[i]] - case$output[[i]]) <= 1e-6))
    }
  }
  TRUE
}

fails <- function(code, text, expression) {
  e <- tryCatch(expression, gluino_error = identity)
  stopifnot(inherits(e, "gluino_error"), e$code == code, grepl(text, paste(conditionMessage(e), e$hint), fixed = TRUE))
}

stopifnot(nzchar(gluino_version()))
x <- matrix(c(1, 3, 2, 4), 2)  # rows 1 2 and 3 4
stopifnot(all.equal(gluino_invoke("sum", x, axis = 1), c(3, 7)))
stopifnot(identical(dim(gluino_invoke("sum", x, axis = 1, keepdims = TRUE)), c(2L, 1L)))
stopifnot(length(gluino_invoke("split", x, num_outputs = 2)) == 2)
stopifnot(all.equal(gluino_invoke("transpose", x), t(x)))
fails("GLUINO_ERROR_ARGUMENT", "did you mean 'broadcast_add'?", gluino_invoke("broadcast_ad", x, x))
fails("GLUINO_ERROR_SYSTEM", "/nowhere-symbol.json", gluino_load("/nowhere-symbol.json"))

folder <- Sys.getenv("GLUINO_TEST_MODELS")
if (nzchar(folder)) {
  for (name in c("mlp", "conv", "loop", "embedding")) {
    net <- gluino_load(file.path(folder, paste0(name, "-symbol.json")))
    cases <- read_cases(file.path(folder, paste0(name, ".cases")))
    stopifnot(length(cases) > 0, as_python(net, cases), as_python(net, rev(cases)))
    # R's way to several at a time: children that go on with what was loaded.
    good <- parallel::mclapply(1:3, function(i) as_python(net, cases), mc.cores = 3)
    stopifnot(identical(good, list(TRUE, TRUE, TRUE)))
    cat(name, "as Python\n")
  }
  net <- gluino_load(file.path(folder, "mlp-symbol.json"), file.path(folder, "mlp-0000.params"))
  print(net)
  stopifnot(identical(gluino_inputs(net), list(list(name = "data", dtype = "float32", shape = c(NA, 8L)))))
  stopifnot(identical(predict(net, list(data = matrix(0.5, 2, 8))), predict(net, matrix(0.5, 2, 8))))
  fails("GLUINO_ERROR_SHAPE", "", predict(net, x))
  fails("GLUINO_ERROR_ARGUMENT", "1 are needed: data", predict(net, matrix(0, 1, 8), matrix(0, 1, 8)))
  stopifnot(inherits(try(predict(net, list(dato = x)), silent = TRUE), "try-error"))
  rm(net)
  invisible(gc())
  stopifnot(gluino_memory()$arrays == 0)
} else {
  cat("GLUINO_TEST_MODELS names no folder of models\n")
}
