// SPDX-License-Identifier: LGPL-2.1-or-later

package mountd1

import (
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"
)

func TestSecretsAreSealedInAMemfd(t *testing.T) {
	file, err := SealSecrets(map[string]string{"user": "bob", "password": ""})
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	content, err := io.ReadAll(file)
	if err != nil {
		t.Fatal(err)
	}
	texts := strings.Split(string(content), "\x00")
	if len(texts) != 5 || texts[4] != "" {
		t.Fatalf("holds %q", content)
	}
	read := map[string]string{texts[0]: texts[1], texts[2]: texts[3]}
	if value, has := read["password"]; !has || value != "" || read["user"] != "bob" {
		t.Errorf("holds %q", content)
	}
	const getSeals = 1034 // F_GET_SEALS
	if seals, _, _ := syscall.Syscall(syscall.SYS_FCNTL, file.Fd(), getSeals, 0); seals != allSeals {
		t.Errorf("has the seals %d", seals)
	}
	if flags, _, _ := syscall.Syscall(syscall.SYS_FCNTL, file.Fd(), syscall.F_GETFD, 0); flags != syscall.FD_CLOEXEC {
		t.Error("a program that the agent starts gets the secrets")
	}
	if _, err = file.WriteAt([]byte("x"), 0); err == nil {
		t.Error("takes writes after its seals")
	}
}

func TestSecretsThatTheFormatCannotHoldAreRefused(t *testing.T) {
	for _, secrets := range []map[string]string{
		{"": "hidden"}, {"key": "hid\x00den"}, {"k\x00ey": "hidden"}} {
		_, err := SealSecrets(secrets)
		if !errors.Is(err, ErrInvalidArgument) {
			t.Errorf("%q is %v", secrets, err)
		} else if strings.Contains(err.Error(), "hid") {
			t.Error("the error has the secret")
		}
	}
}
