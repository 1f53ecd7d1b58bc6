# shellcheck shell=dash
# Programs that run in a container, in dash or in busybox's shell: sh -c "$(cat container.sh)" sh NAME ARGUMENTS
#
# NAME is one of the functions below. `alone` runs another one while all other processes of the same user are stopped.
# A file that is no regular one, or is reached through a link, ends put and get with one of the codes 40 to 45.

# run CPU HARD KILOBYTES SECONDS PROGRAM...: a program with its limits; seconds of CPU, then by the clock.
run() {
  ulimit -S -t "$1"
  ulimit -H -t "$2"
  ulimit -v "$3"
  seconds=$4
  shift 4
  timeout -s KILL "$seconds" "$@"
  exit $?
}

# session CPU HARD KILOBYTES PROGRAM...: prints its process id, then becomes the program.
session() {
  echo $$
  ulimit -S -t "$1"
  ulimit -H -t "$2"
  ulimit -v "$3"
  shift 3
  exec "$@"
}

# alone NAME ARGUMENTS: nothing changes the files meanwhile.
alone() {
  kill -STOP -1 2>/dev/null
  ("$@")
  code=$?
  kill -CONT -1 2>/dev/null
  exit "$code"
}

# put FOLDER... NAME: standard input becomes the file; folders are made.
put() {
  place=.
  for name in "$@"; do
    [ -L "$place" ] && exit 40
    if [ "$place" != . ] && [ ! -d "$place" ]; then
      mkdir "$place" || exit 41
    fi
    place="$place/$name"
  done
  [ -d "$place" ] && exit 42
  rm -f "$place"
  cat >"$place" || exit 43
}

# get FOLDER... NAME: prints the file.
get() {
  place=.
  for name in "$@"; do
    place="$place/$name"
    [ -L "$place" ] && exit 40
  done
  [ -e "$place" ] || exit 44
  [ -f "$place" ] || exit 45
  exec cat "$place"
}

# archive FOLDER: prints its content as a tar archive.
archive() {
  exec tar -c -f - -C "$1" .
}

# archive_if_readable FOLDER: the same; nothing if tar cannot read all of it.
archive_if_readable() {
  if [ -z "$(find "$1" \( -type d ! -perm -700 -o -type f ! -perm -400 \) 2>/dev/null)" ]; then
    archive "$1"
  fi
}

# make_readable FOLDER: lets its user read everything, and prints mode and path of what it changes, each before a NUL.
# The modes of all files are printed before one changes, since a file may have several names.
make_readable() {
  # shellcheck disable=SC2016  # another shell expands them
  print='printf "%s\0%s\0" "$(stat -c %a "$1")" "$1"'
  # shellcheck disable=SC2016
  open='chmod u+rwx "$1"'
  find "$1" -type d ! -perm -700 -exec sh -c "$print; $open" sh {} \;
  find "$1" -type f ! -perm -400 -exec sh -c "$print" sh {} \;
  find "$1" -type f ! -perm -400 -exec sh -c "$open" sh {} \;
}

# set_modes: of the paths in standard input, which each follow a mode; errors are ignored, since files may be gone.
set_modes() {
  xargs -0 -n 2 chmod
  :
}

# empty FOLDER: removes what its user has there. Folders too deep for rm are moved up; every program takes a path of 15
# names of 255 bytes.
empty() {
  round=0
  while
    find "$1" -maxdepth 15 -type d -user 1000 ! -perm -700 -exec chmod u+rwx {} \;
    find "$1" -mindepth 1 -maxdepth 1 -user 1000 -exec rm -rf {} +
    [ -n "$(find "$1" -mindepth 1 -maxdepth 1 -user 1000)" ]
  do
    round=$((round + 1))
    [ $round -le 500 ] || return 1
    for deep in 150 15; do
      # shellcheck disable=SC2016  # another shell expands them
      find "$1" -mindepth $deep -maxdepth $deep -type d -exec sh -c 'mv "$1" "$0/.$2-$$"' "$1" {} $round \;
    done
  done
  return 0
} 2>/dev/null

# replace_files FOLDER SCRATCH...: empties the folders, and fills the first one from the tar archive in standard input.
replace_files() {
  folder=$1
  shift
  chmod 700 "$folder"
  chmod 1777 /tmp
  empty /tmp && empty /dev/shm || exit 1
  for scratch in "$@"; do
    empty "$scratch" && touch "$scratch" || exit 1
  done
  empty "$folder" && touch "$folder" /tmp || exit 1
  umask 0
  exec tar -x -p -f - -C "$folder" # busybox takes -p, and applies the mask all the same
}

"$@"
