#!/bin/sh
# tests/package/bare.sh [BUILD]: the wheel and the Debian packages of BUILD in a new Debian root folder, made by debootstrap, as root.
#
# First the root has Python and no C compiler: the wheel with the package ziglang, from the package index, trains and generates. Then
# the Debian packages are installed: the command with its man page and completion, and a C program outside of the sources, by
# pkg-config and by CMake.
. "$(dirname "$0")/../begin.sh"
[ "$(id -u)" = 0 ] || wrong "requires root"
for tool in debootstrap chroot unshare; do command -v $tool >/dev/null || wrong "$tool is missing"; done
ls "$BUILD"/moec-*.whl "$BUILD"/moec_*.deb >/dev/null || wrong "run: make wheel deb"
root=$work/root
debootstrap --variant=minbase --include=ca-certificates,python3,python3-venv bookworm "$root" >"$work/log" 2>&1 || wrong "$(tail -5 "$work/log")"
mkdir "$root/given"
cp "$BUILD"/moec-*.whl "$BUILD"/*.deb examples/library.c "$root/given"
# The package index of this machine.
[ ! -e /etc/pip.conf ] || cp /etc/pip.conf "$root/etc/pip.conf"
cp /etc/resolv.conf /etc/hosts "$root/etc/"
[ ! -d /usr/local/share/ca-certificates ] || cp -r /usr/local/share/ca-certificates "$root/usr/local/share/"
small_model 20
cp "$work/small.moe" "$work/text" "$root/given"

# inside: runs the script of standard input in the root folder, with a home folder of its own.
inside() {
    cat >"$root/given/script"
    unshare --mount --propagation private sh -c 'mount -t proc proc "$1/proc" && mount --bind /dev "$1/dev" && shift &&
        exec chroot "$0" env -i HOME=/root LC_ALL=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive sh -eu /given/script' \
        "$root" "$root" >"$work/log" 2>&1 </dev/null || wrong "$(tail -30 "$work/log")"
    cat "$work/log"
}
inside <<'END'
for compiler in cc gcc clang zig tcc; do ! command -v $compiler; done
[ ! -e /usr/include/stdio.h ]
update-ca-certificates >/dev/null
python3 -m venv /env
/env/bin/pip install -q "$(ls /given/moec-*.whl)[cc]"
/env/bin/moec train /given/small.moe --data /given/text --out /trained
/env/bin/moec generate /trained --prompt x -n 8 --temperature 0 >/text1
/env/bin/python -c 'import moec; print("x" + moec.load("/trained").generate("x", tokens=8, temperature=0), end="")' >/text2
cmp /text1 /text2
/env/bin/python -c 'import moec; moec.train("/given/small.moe", data="/given/text", out="/again", on_step=lambda progress: None)'
cmp /trained/last.safetensors /again/last.safetensors
echo "wheel: trained without a C compiler"
END
inside <<'END'
apt-get update -qq
apt-get install -y -qq /given/*.deb cmake pkg-config make man-db >/dev/null
moec --version
moec train /given/small.moe --data /given/text --out /by_deb
[ -e /usr/share/bash-completion/completions/moec ]
dpkg --verify moec libmoec-dev
mkdir /program && cd /program
cc -Wall -Wextra -Werror /given/library.c $(pkg-config --cflags --libs moec) -o by_pkg_config
cat >CMakeLists.txt <<'CMAKE'
cmake_minimum_required(VERSION 3.16)
project(program C)
find_package(moec 0.2 REQUIRED)
foreach(kind moec static)
  add_executable(by_${kind} /given/library.c)
  target_link_libraries(by_${kind} PRIVATE moec::${kind})
endforeach()
CMAKE
cmake -S . -B made >/dev/null && cmake --build made >/dev/null
for program in ./by_pkg_config made/by_moec made/by_static; do $program /by_deb x >out.${program##*/}; done
grep '^loss' out.by_pkg_config
cmp out.by_pkg_config out.by_moec && cmp out.by_moec out.by_static
! readelf -d made/by_static | grep libmoec
readelf -d made/by_moec | grep -q libmoec.so.0.2
apt-get remove -y -qq moec libmoec-dev 'libmoec0*' >/dev/null
! command -v moec && [ ! -e /usr/include/moec.h ]
echo "Debian packages: programs built and run"
END
