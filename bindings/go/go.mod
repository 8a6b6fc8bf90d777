module gluino.org/gluino

go 1.18
