#!/bin/bash
# A run on the nodes of a Slurm job, with a Ray cluster of its own; the loop and the learner are on the first node.
# Needs: Slurm; the extras train and ray on its nodes.
#
#     sbatch --nodes=2 --gpus-per-node=8 --time=24:00:00 examples/slurm.sh RUN.toml runs/mine cluster.engines=15
#
# The nodes share the working directory. The same command again continues the run. Stop it with a checkpoint by
# `scancel --batch --signal=TERM JOB`; near its time limit the job does so itself, and is queued again.
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive
#SBATCH --signal=B:USR1@300     # seconds before the time limit: a step of training and a checkpoint have to fit
#SBATCH --requeue
#SBATCH --open-mode=append
run=$1 folder=$2
shift 2
head=$SLURMD_NODENAME # the first node, on which this script runs
port=${RAY_PORT:-6379}
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN
RAY_AUTH_TOKEN=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')

until_head() { # answers, for five minutes
    timeout 300 bash -c "until (exec 3<> /dev/tcp/$1/$2) 2> /dev/null; do sleep 1; done"
}
start_ray() { # on every node; the first GPU of the first node is the learner's
    if [ "$SLURM_PROCID" = 0 ]; then
        CUDA_VISIBLE_DEVICES=$(cut -s -d, -f2- <<< "${CUDA_VISIBLE_DEVICES:-}")
        export CUDA_VISIBLE_DEVICES
        exec ray start --block --head --port="$2" --include-dashboard=false
    fi
    until_head "$1" "$2" && exec ray start --block --address="$1:$2"
}
export -f until_head start_ray
srun --cpus-per-task="$SLURM_CPUS_ON_NODE" bash -c 'start_ray "$@"' _ "$head" "$port" &> "ray-$SLURM_JOB_ID.log" &
ray=$!
until_head "$head" "$port" || exit 1 # ray-JOB.log says why

resume=()
[ -e "$folder/run.toml" ] && resume=(--resume)
turncredit train "$run" --output "$folder" "${resume[@]}" cluster.address="$head:$port" "$@" &
trainer=$!
trap 'kill -TERM $trainer' TERM
trap 'again=1; kill -TERM $trainer' USR1
while kill -0 $trainer 2> /dev/null; do # a signal ends `wait`, and the run goes on to its checkpoint
    wait $trainer
    code=$?
done
kill $ray
[ "$code" = 130 ] && [ -n "$again" ] && scontrol requeue "$SLURM_JOB_ID"
exit $code
