#!/bin/sh
# The cache of compiled programs: a cached program runs only if it belongs to this user and is unchanged. A fault of the cache
# is reported and repaired, or the cache is not used.
. "$(dirname "$0")/../begin.sh"
set +e
export MOEC_CFLAGS=-O0 OMP_NUM_THREADS=2
umask 022
small_model 1
cd "$work" || exit 1
folder=$XDG_CACHE_HOME/moec

# runs HOW WORDS: the model trains, its program is "loaded" or "compiled", and the messages contain WORDS (empty: no message)
runs() {
    rm -rf run
    timeout 100 moec train small.moe --data text --out run >out 2>log </dev/null || { cat log; wrong "$2: the training failed"; }
    grep -q "program $1" log || { cat out log; wrong "$2: the program is not $1"; }
    sed -i -E '/^(small: |memory |step |wrote |  next: )/d' log
    if [ -n "$2" ]; then
        grep -qF -- "$2" log || { cat log; wrong "no '$2'"; }
    else
        [ ! -s log ] || { cat log; wrong "a message without a reason"; }
    fi
}

runs compiled ""
runs loaded ""
[ "$(stat -c %a "$folder")" = 700 ] || wrong "other users have access to the cache folder"
program=$(ls "$folder"/*.so)

# A program that is cut, changed, renamed or written by somebody else is compiled again and stored as before.
cp "$program" whole
again() {
    runs compiled "$2"
    cmp -s whole "$program" || wrong "$1: the cached program is not repaired"
    runs loaded ""
}
length=$(wc -c <whole)
for part in 0 $((length / 2)) $((length - 1)); do
    head -c "$part" whole >"$program"
    again "cut to $part bytes" ""
done
printf x | dd of="$program" bs=1 seek=$((length / 2)) conv=notrunc 2>/dev/null
again "a changed byte" ""
echo 'int own(void) { return 1; } __attribute__((constructor)) static void run(void) { fclose(fopen("planted.ran", "w")); }' >planted.c
cc -include stdio.h -shared -fPIC -o planted.so planted.c || wrong "the library to plant does not build"
cp planted.so "$program"
again "a planted program" ""
tail -c 24 whole >>planted.so
cp planted.so "$program"
again "a planted program with a seal" ""
rm "$program"
cp whole elsewhere.so
ln -s "$PWD/elsewhere.so" "$program"
again "a link" ""
[ -L "$program" ] && wrong "a link remains in the cache"
mv "$folder" kept
rm -f "$folder"
sed 's/hidden_dim = 8/hidden_dim = 16/' small.moe >other.moe
moec train other.moe --data text --out run2 >/dev/null 2>&1 && mv "$(ls "$folder"/*.so)" another.so
rm -r "$folder" && mv kept "$folder"
cp another.so "$program"
again "another program under this name" ""
chmod 666 "$program"
again "a program that others can write" "other users can write it"
if [ "$(id -u)" = 0 ]; then
    chown 12345 "$program"
    again "a program of another user" "other users can write it"
fi
[ -e planted.ran ] && wrong "a planted program was run"

# A file name that is used by an object that cannot be replaced.
rm "$program"
mkdir "$program"
runs compiled "is not cached"
rmdir "$program"
again "a folder in its place" ""

# Files of killed processes are removed; those of running processes and new ones stay.
rm "$program"
mkdir "$folder/make.old111" "$folder/make.new111" "$folder/make.busy11"
touch "$folder/make.old111/program.c" "$folder/make.olded1"
touch -d '2 hours ago' "$folder/make.old111" "$folder/make.busy11" "$folder/make.olded1"
flock "$folder/make.busy11" sleep 30 &
holder=$!
sleep 0.2
runs compiled ""
kill $holder
[ -e "$folder/make.old111" ] || [ -e "$folder/make.olded1" ] && wrong "leftovers stay"
[ -e "$folder/make.new111" ] && [ -e "$folder/make.busy11" ] || wrong "the folder of a running process was removed"
rm -r "$folder"/make.*

# A folder that another user can write, owns or can exchange, and a folder that is a link, is not used.
for mode in 777 720; do
    chmod $mode "$folder"
    runs compiled "not cached: other users can write $folder"
    chmod 700 "$folder"
done
chmod 777 "$XDG_CACHE_HOME"
runs compiled "not cached: other users can replace files in"
chmod 1777 "$XDG_CACHE_HOME"
runs loaded ""
chmod 755 "$XDG_CACHE_HOME"
if [ "$(id -u)" = 0 ]; then
    chown 12345 "$folder"
    runs compiled "belongs to another user"
    chown 0 "$folder"
fi
mv "$folder" moved
ln -s "$PWD/moved" "$folder"
runs compiled "is not a folder, or is a symbolic link"
rm "$folder"
mv moved "$folder"
runs loaded ""
[ "$(ls "$folder"/*.so | wc -l)" = 1 ] || wrong "a program was stored in a folder that must not be used"

# With an open umask the cache is still private.
rm -r "$folder"
(umask 000 && runs compiled "") || exit 1
find "$folder" -perm /022 | grep . && wrong "other users can write to the cache"
runs loaded ""

# A folder on a noexec mount, simulated by a loader that refuses it.
case $BUILD in
*san*) ;;
*)
    cat >refuse.c <<'REFUSE'
#include <dlfcn.h>
#include <string.h>
void *dlopen(const char *path, int flags) {
    void *(*real)(const char *, int) = (void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");
    return real(path && strstr(path, "/moec/") ? "/nothing/here" : path, flags);
}
REFUSE
    cc -D_GNU_SOURCE -shared -fPIC -o refuse.so refuse.c -ldl || wrong "the refusing loader does not build"
    LD_PRELOAD=$PWD/refuse.so runs loaded ""
    rm "$program"
    LD_PRELOAD=$PWD/refuse.so runs compiled ""
    ;;
esac

# A full disk is reported as such, not as a fault of the program. Where mounts are permitted, also on a full mount and on a
# noexec mount.
full() { # full WORDS: the last command reported a full disk
    grep -qE "disk is full|No space left on device" log || { cat log; wrong "$1: the full disk is not reported"; }
    ! grep -q "please report" log || { cat log; wrong "$1: reported as an internal error"; }
}
printf '#!/bin/sh\necho "fatal error: error writing to /tmp/x.s: No space left on device" >&2\nexit 1\n' >full_cc
chmod 755 full_cc
MOEC_CC=$PWD/full_cc moec train small.moe --data text --out run3 >out 2>log && wrong "training succeeds without space for the compiler"
full "a compiler without room"
# A full cache does not stop a program: it is compiled elsewhere, with a note. Only the cache is full for the compiler.
without_cache() { # without_cache WORDS STATUS: the last command succeeded with the note
    [ "$2" = 0 ] || { cat out log; wrong "$1: the command failed"; }
    grep -q "the cache in .* is not usable; the program was compiled in" log || { cat log; wrong "$1: no note"; }
    ! grep -q "error[:[]" log || { cat log; wrong "$1: an error is printed"; }
}
printf '#!/bin/sh\ncase "$*" in *"%s"*) echo "fatal error: No space left on device" >&2; exit 1 ;; esac\nexec cc "$@"\n' "$folder" >some_cc
chmod 755 some_cc
MOEC_CC=$PWD/some_cc moec train small.moe --data text --out run7 >out 2>log
without_cache "a compiler without room in the cache" $?
MOEC_CC=$PWD/some_cc moec generate run7 --prompt x -n 2 >out 2>log
without_cache "generating without room in the cache" $?
if unshare -rm mount -t tmpfs none "$folder" 2>/dev/null; then
    for size in 600k 8k; do
        rm -rf run4
        unshare -rm sh -c "mount -t tmpfs -o size=$size,mode=700 none '$folder' && exec moec train small.moe --data text --out run4" >out 2>log
        without_cache "a cache on a disk of $size" $?
    done
    unshare -rm sh -c "mount -t tmpfs -o size=8k,mode=700 none '$folder' && exec moec generate run4 --prompt x -n 2" >out 2>log
    without_cache "generating with a cache on a disk of 8k" $?
    mkdir -p noexec
    unshare -rm sh -c "mount -t tmpfs -o noexec,mode=700 none noexec && mkdir -m 700 noexec/moec &&
        export XDG_CACHE_HOME=\$PWD/noexec && moec train small.moe --data text --out run5 && moec train small.moe --data text --out run6" >out 2>log ||
        { cat out log; wrong "training fails with a cache on a noexec mount"; }
    grep -q "program compiled" log && grep -q "program loaded" log || { cat out log; wrong "the program on a noexec mount is not stored"; }
else
    echo "mounts are not permitted: full and noexec folders are skipped"
fi
exit 0
