// SPDX-License-Identifier: LGPL-2.1-or-later

package mountd1

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"unsafe"
)

// The number of memfd_create(2) by architecture, because package syscall lacks
// it on most of them.
var memfdCreate = map[string]uintptr{"386": 356, "amd64": 319, "arm": 385,
	"arm64": 279, "loong64": 279, "ppc64le": 360, "riscv64": 279, "s390x": 350}

const (
	mfdCloexec      = 1    // MFD_CLOEXEC
	mfdAllowSealing = 2    // MFD_ALLOW_SEALING
	addSeals        = 1033 // F_ADD_SEALS
	allSeals        = 15   // F_SEAL_SEAL, SHRINK, GROW and WRITE
)

// SealSecrets returns a memfd with key, NUL, value, NUL, and so on, its offset
// at 0 and with all seals, for the option "secrets":
//
//	file, err := mountd1.SealSecrets(secrets)
//	...
//	defer file.Close()
//	options.Secrets = mountd1.Of(dbus.UnixFD(file.Fd()))
//
// The file must stay open until the call has its answer. The error is
// ErrInvalidArgument if a key is empty or a text holds a NUL; it never contains
// the secret.
func SealSecrets(secrets map[string]string) (*os.File, error) {
	for key, value := range secrets {
		// The memfd's format separates texts by NUL.
		if key == "" || strings.Contains(key, "\x00") || strings.Contains(value, "\x00") {
			return nil, fmt.Errorf(
				"%w: a secret has an empty key or contains a NUL byte", ErrInvalidArgument)
		}
	}
	file, err := sealable("mountd-secrets")
	if err != nil {
		return nil, err
	}
	if err = writeAndSeal(file, secrets); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

func sealable(name string) (*os.File, error) {
	number, known := memfdCreate[runtime.GOARCH]
	if !known {
		return nil, os.NewSyscallError("memfd_create", syscall.ENOSYS)
	}
	text, err := syscall.BytePtrFromString(name)
	if err != nil {
		return nil, err
	}
	// CLOEXEC, because programs that the agent starts must not get the secrets.
	// Without ALLOW_SEALING the file could get no seals (memfd_create(2)).
	fd, _, errno := syscall.Syscall(number, uintptr(unsafe.Pointer(text)),
		mfdCloexec|mfdAllowSealing, 0)
	if errno != 0 {
		return nil, os.NewSyscallError("memfd_create", errno)
	}
	return os.NewFile(fd, name), nil
}

func writeAndSeal(file *os.File, secrets map[string]string) error {
	for key, value := range secrets {
		for _, text := range []string{key, "\x00", value, "\x00"} {
			// WriteString makes no copy of the text.
			if _, err := file.WriteString(text); err != nil {
				return err
			}
		}
	}
	if _, err := file.Seek(0, 0); err != nil {
		return err
	}
	// Seals come after the writes, because F_SEAL_WRITE refuses all writes
	// (fcntl(2)).
	_, _, errno := syscall.Syscall(syscall.SYS_FCNTL, file.Fd(), addSeals, allSeals)
	runtime.KeepAlive(file)
	if errno != 0 {
		return os.NewSyscallError("fcntl", errno)
	}
	return nil
}
