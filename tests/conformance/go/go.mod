module conformance

go 1.19

require (
	github.com/godbus/dbus/v5 v5.1.0
	mountd.org/mountd1 v0.0.0
)

replace mountd.org/mountd1 => ../../../agent/bindings/go
