#' Load an exported network
#'
#' @param path A graph, as \code{net-symbol.json}, or a model in one file.
#' @param params The parameters of a graph; \code{NULL}: the only ones beside it.
#' @return An object of class \code{gluino_model}, freed by the garbage collector.
#' @examples
#' \dontrun{
#' net <- gluino_load("net-symbol.json")
#' predict(net, matrix(0, 2, 8))
#' }
#' @export
gluino_load <- function(path, params = NULL) {
  handle <- called(.Call(C_gluino_load, path.expand(path), if (is.null(params)) NULL else path.expand(params)))
  structure(list(handle = handle), class = "gluino_model")
}

#' Predict with a network
#'
#' Arrays have the shape that the network sees: the first extent of a matrix is its rows, whatever the order in memory. Numbers become
#' float32, whole numbers (\code{integer}) int32, and logical ones bool.
#'
#' @param object A model of \code{\link{gluino_load}}.
#' @param newdata An array, or a list of arrays in the order of \code{\link{gluino_inputs}}, or with their names.
#' @param ... Further inputs.
#' @return An array where the network has one output, else a list of them.
#' @export
predict.gluino_model <- function(object, newdata, ...) {
  inputs <- if (is.list(newdata)) newdata else list(newdata, ...)
  if (!is.null(names(inputs))) {
    wanted <- vapply(gluino_inputs(object), function(input) input$name, "")
    unknown <- setdiff(names(inputs), wanted)
    if (length(unknown)) stop("the model has no input '", unknown[1], "'; it has ", paste(wanted, collapse = ", "))
    inputs <- inputs[wanted]
  }
  outputs <- called(.Call(C_gluino_predict, object$handle, inputs))
  if (length(outputs) == 1) outputs[[1]] else outputs
}

#' What a network takes and gives
#'
#' @param model A model of \code{\link{gluino_load}}.
#' @return A list with \code{name}, \code{dtype} and \code{shape} of each. An extent of \code{NA} may change from call to call; a shape of
#'   \code{NULL} is not known before the call.
#' @export
gluino_inputs <- function(model) called(.Call(C_gluino_values, model$handle, FALSE))

#' @rdname gluino_inputs
#' @export
gluino_outputs <- function(model) called(.Call(C_gluino_values, model$handle, TRUE))

#' Call an operator by its name in MXNet
#'
#' @param name Its name, as \code{"softmax"}.
#' @param ... Arrays, and attributes by name: numbers, text, logical values, or vectors for tuples.
#' @return An array, or a list where the operator has several outputs.
#' @examples
#' gluino_invoke("sum", matrix(1:6 + 0, 2), axis = 1)
#' @export
gluino_invoke <- function(name, ...) {
  arguments <- list(...)
  is_attribute <- if (is.null(names(arguments))) rep(FALSE, length(arguments)) else nzchar(names(arguments))
  attributes <- vapply(arguments[is_attribute], attribute_text, "")
  outputs <- called(.Call(C_gluino_invoke, name, unname(arguments[!is_attribute]), names(attributes), unname(attributes)))
  if (length(outputs) == 1) outputs[[1]] else outputs
}

#' Version, memory and threads
#'
#' @param threads How many threads one operator may use.
#' @return \code{gluino_version}: text. \code{gluino_memory}: bytes in use, and how many models and arrays there are.
#' @export
gluino_version <- function() .Call(C_gluino_version)

#' @rdname gluino_version
#' @export
gluino_memory <- function() called(.Call(C_gluino_memory))

#' @rdname gluino_version
#' @export
gluino_set_threads <- function(threads) invisible(called(.Call(C_gluino_set_threads, as.integer(threads))))

#' @export
print.gluino_model <- function(x, ...) {
  line <- function(value) {
    shape <- if (is.null(value$shape)) "any shape" else paste(ifelse(is.na(value$shape), "?", value$shape), collapse = " x ")
    paste0("  ", value$name, ": ", value$dtype, ", ", shape, "\n")
  }
  cat("a network of gluino\ntakes\n", vapply(gluino_inputs(x), line, ""), "gives\n", vapply(gluino_outputs(x), line, ""), sep = "")
  invisible(x)
}

attribute_text <- function(value) {
  text <- if (is.logical(value)) ifelse(value, "True", "False") else format(value, digits = 17, trim = TRUE, scientific = FALSE)
  if (length(value) == 1) text else paste0("(", paste(text, collapse = ", "), ")")
}

# What went wrong comes back as a value of this class, so that no C code is jumped over; it becomes a condition here.
called <- function(result) {
  if (!inherits(result, "gluino_failure")) return(result)
  condition <- list(message = result$message, call = NULL, code = result$code, hint = result$hint)
  stop(structure(condition, class = c("gluino_error", "error", "condition")))
}
