#!/bin/sh
# The cache: what is kept there is run, so it is nobody else's and as it was when it was written; what is wrong with it is
# told, mended or done without.
. "$(dirname "$0")/../begin.sh"
set +e
export MOEC_CFLAGS=-O0 OMP_NUM_THREADS=2
umask 022
small_model 1
cd "$work" || exit 1
folder=$XDG_CACHE_HOME/moec

# runs HOW WORDS: the model trains, its program is "loaded" or "compiled", and the words are said (none: nothing is)
runs() {
    rm -rf run
    timeout 100 moec train small.moe --data text --out run >out 2>log </dev/null || { cat log; wrong "$2: it does not run"; }
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
[ "$(stat -c %a "$folder")" = 700 ] || wrong "the cache's folder is open to others"
program=$(ls "$folder"/*.so)

# Cut, changed, of another name, by another hand: made again, and kept as it was.
cp "$program" whole
again() {
    runs compiled "$2"
    cmp -s whole "$program" || wrong "$1: it is not mended"
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
cc -include stdio.h -shared -fPIC -o planted.so planted.c || wrong "nothing to plant"
cp planted.so "$program"
again "a planted program" ""
tail -c 24 whole >>planted.so
cp planted.so "$program"
again "a planted program with a seal" ""
rm "$program"
cp whole elsewhere.so
ln -s "$PWD/elsewhere.so" "$program"
again "a link" ""
[ -L "$program" ] && wrong "a link is kept"
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

# A name that is taken by what cannot be replaced.
rm "$program"
mkdir "$program"
runs compiled "is not cached"
rmdir "$program"
again "a folder in its place" ""

# What killed processes leave goes; where somebody works, and what is new, stays.
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
[ -e "$folder/make.new111" ] && [ -e "$folder/make.busy11" ] || wrong "the place of a living process is gone"
rm -r "$folder"/make.*

# A folder that another user can write, owns or exchanges, and one that is a link, is not used.
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
[ "$(ls "$folder"/*.so | wc -l)" = 1 ] || wrong "something was kept where it must not be"

# An open umask leaves nothing open.
rm -r "$folder"
(umask 000 && runs compiled "") || exit 1
find "$folder" -perm /022 | grep . && wrong "others can write what is kept"
runs loaded ""

# A folder from which nothing may be run, as a loader that refuses.
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
    cc -D_GNU_SOURCE -shared -fPIC -o refuse.so refuse.c -ldl || wrong "no loader that refuses"
    LD_PRELOAD=$PWD/refuse.so runs loaded ""
    rm "$program"
    LD_PRELOAD=$PWD/refuse.so runs compiled ""
    ;;
esac

# A full disk is what it is told to be, not a fault of the program; where a mount may be made, on one, and below a folder
# from which nothing may be run.
full() { # full WORDS: the last command said that the disk is full
    grep -qE "disk is full|No space left on device" log || { cat log; wrong "$1: not told of"; }
    ! grep -q "please report" log || { cat log; wrong "$1: taken for a fault of ours"; }
}
printf '#!/bin/sh\necho "fatal error: error writing to /tmp/x.s: No space left on device" >&2\nexit 1\n' >full_cc
chmod 755 full_cc
MOEC_CC=$PWD/full_cc moec train small.moe --data text --out run3 >out 2>log && wrong "a compiler without room"
full "a compiler without room"
# A full cache does not stop a program: it is compiled elsewhere, with a note. The compiler has no room in the cache alone.
without_cache() { # without_cache WORDS STATUS: the last command has ended well, with the note
    [ "$2" = 0 ] || { cat out log; wrong "$1: it is stopped"; }
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
        { cat out log; wrong "a cache from which nothing may be run"; }
    grep -q "program compiled" log && grep -q "program loaded" log || { cat out log; wrong "not kept where nothing may be run"; }
else
    echo "no mount may be made here: full and noexec folders are left out"
fi
exit 0
