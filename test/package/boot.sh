#!/bin/sh
# SPDX-License-Identifier: MIT
# Starts systemd on the Debian in a folder: boot.sh FOLDER, as the first process of namespaces of its own (test/package/systemd.sh).
# Of the machine around it gets devices that do no harm, and kernel settings that it can only read.
set -eu
cd "$1"

mount --make-rprivate /
mount --bind . .
cd "$1"
mount -t proc proc proc
mount --bind proc/sys proc/sys
mount -o remount,ro,bind proc/sys
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755,nosuid tmpfs dev
for device in null zero full random urandom tty; do
    : >"dev/$device"
    mount --bind "/dev/$device" "dev/$device"
done
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts dev/pts
mount -t tmpfs -o mode=1777,nosuid,nodev tmpfs dev/shm
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
mount -t tmpfs -o mode=755,nosuid,nodev tmpfs run
mount -t tmpfs -o mode=1777,nosuid,nodev tmpfs tmp

# chroot wouldn't do: in it nobody may make a namespace of users, which the unit wants. What systemd mounts for a service in a
# namespace of its own, credentials say, is to be seen in the others: it takes that for granted.
mkdir -p .around
pivot_root . .around
exec env -i container=lxc PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    setpriv --bounding-set=-sys_module,-sys_time,-sys_boot,-sys_rawio,-syslog \
    sh -c 'umount -l /.around && mount --make-rshared / && exec /lib/systemd/systemd --unit=basic.target --show-status=no --log-target=journal'
