module mountd.org/mountd1

go 1.19

require github.com/godbus/dbus/v5 v5.1.0
