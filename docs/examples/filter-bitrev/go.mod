module example.org/bitrev

go 1.26.0

require github.com/seed-695719ce/nczarr v0.0.0

replace github.com/seed-695719ce/nczarr => ../../..
