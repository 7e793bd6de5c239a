# The sum of a column, added up where it lies in the mapped file: Rscript sum.R SHIM FILE COLUMN
arguments <- commandArgs(trailingOnly = TRUE)
dyn.load(arguments[1])
answer <- .C("column_sum", path = arguments[2], name = arguments[3], sum = 0, message = "")
if (nzchar(answer$message)) stop(answer$message)
cat(format(answer$sum, digits = 15, scientific = FALSE), "\n")
