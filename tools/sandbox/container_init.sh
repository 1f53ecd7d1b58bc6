# shellcheck shell=dash
# The second process of a container: it reads commands, which are those of container_init.py, and ends programs.
read -r me rest </proc/self/stat
while read -r what pids; do
  count=0
  if [ "$what" = all ]; then
    kill -9 -1
    set -- /proc/[0-9]*
    count=$(($# - 2))
  else
    kill -STOP -1
    kept=" "
    rows=
    for place in /proc/[0-9]*; do
      pid=${place#/proc/}
      case $pid in 1|"$me") continue ;; esac
      parent=
      while read -r key value rest; do
        [ "$key" = PPid: ] && parent=$value && break
      done <"$place/status"
      rows="$rows $pid:$parent"
      named=no
      case " $pids " in *" $pid "*) named=yes ;; esac
      case $parent$what$named in 0othersyes|0orphansno) kept="$kept$pid " ;; esac
    done
    more=yes
    while [ $more = yes ]; do
      more=no
      for row in $rows; do
        case $kept in *" ${row%:*} "*) continue ;; esac
        case $kept in *" ${row#*:} "*) kept="$kept${row%:*} "; more=yes ;; esac
      done
    done
    for row in $rows; do
      case $kept in *" ${row%:*} "*) ;; *) kill -9 "${row%:*}" && count=$((count + 1)) ;; esac
    done
    kill -CONT -1
  fi
  echo "$count"
done
