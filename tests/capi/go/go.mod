module arrowwood/tests/capi

go 1.19
