# What somebody does with a slow directory: $1 the directory, $2 what, $3 a folder to tell of it. Ends when $3/stop is there.
# Each thing that fails is a line in $3/errors; $3/count says how much has gone well.
folder=$1 what=$2 told=$3
fail() { echo "$1" >> "$told/errors"; }
if [ "$what" != idle ]; then
    # its own names are relative: whoever renames a folder above, or mounts something upon it, changes nothing for it
    cd "$folder" || fail enter
    exec 3< file 4>> held || fail open
fi
: > "$told/ready"
count=0
while [ ! -e "$told/stop" ]; do
    case $what in
    idle) : ;;
    open) echo $count >&4 || fail "write to an open file" ;;
    writing)
        echo $count >&4 || fail "write to an open file"
        echo $count >> log || fail "write by its path"
        read -r line < log || fail "read by its path"
        ;;
    esac
    count=$((count + 1))
    echo $count > "$told/count.new" && mv "$told/count.new" "$told/count"
    sleep 0.02
done
