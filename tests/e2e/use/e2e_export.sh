#!/bin/sh
# pipetrain export: which weights and which network it takes, what it refuses, and that an output is whole or not there. What
# ONNX Runtime computes with the models is compared by make check-peers.
export_as=
. "$(dirname "$0")/export.sh"

# A pair of the metadata, which are texts after their lengths.
has_text() {
    LC_ALL=C grep -aqF -- "$2" "$1" || fail "$1 has no '$2'"
}

expect_end 0 'weights alone' export_run -w $weights -o a.onnx
expect_out "^a\.onnx: mnist_cnn from $weights, [0-9.]+ [KM]iB, ONNX opset 13\$"
expect_err_lines 0
has_text a.onnx 'pipetrain.net'
has_text a.onnx 'conv2d conv1 filters 32 kernel 3'
has_text a.onnx '["class0","class1","class2","class3","class4","class5","class6","class7","class8","class9"]'
has_text a.onnx 'uint8 [N, 1, 28, 28], grey, from 0 to 255'
has_text a.onnx 'pipetrain.images.validation'
LC_ALL=C grep -aqF 'pipetrain.images.train' a.onnx && fail 'a.onnx has images of training'

# The same bytes in any way.
expect_end 0 'the weights of the run' export_run -c tiny.conf -o b.onnx
expect_same_file a.onnx b.onnx 'the weights of the run'
expect_end 0 'both' export_run -c tiny.conf -w $weights -o c.onnx
expect_same_file a.onnx c.onnx 'both'
expect_end 0 'a replaced file' export_run -w $weights -o c.onnx --force
expect_same_file a.onnx c.onnx 'a replaced file'
"$pipetrain" export -w $weights -o - >d.onnx || fail 'standard output'
expect_same_file a.onnx d.onnx 'standard output'
mkfifo pipe
cat pipe >e.onnx &
"$pipetrain" export -w $weights -o - >pipe || fail 'a pipe'
wait
expect_same_file a.onnx e.onnx 'a pipe'
expect_end 0 'other input' export_run -w $weights -o f.onnx --layout nhwc --input=float
has_text f.onnx 'float [N, 28, 28, 1], grey, from 0 to 255'
expect_end 0 'an option that the command does not use' export_run -w $weights -o f.onnx -f --set devices.kind=cpu
expect_err '^export does not use devices\.kind$'
printf 'a\nb\nc\nd\ne\nf\ng\n"h"\ni\n\303\244\n' >names.txt
expect_end 0 'other names' export_run -w $weights -o f.onnx -f --set data.class_names=names.txt --set model.weights_differ=yes
has_text f.onnx '"g","\"h\"","i"'
expect_err_lines 0
sed 1d names.txt >nine.txt
expect_end 0 'names of fewer classes' export_run -w $weights -o f.onnx -f --set data.class_names=nine.txt --set model.weights_differ=yes
expect_err '^nine\.txt names 9 classes, the network has 10$'

# The command line.
refuses 2 'no output' 'no output given: .*export -w runs/run -o model.onnx' -w $weights
refuses 2 'an empty output' 'the name of the file is empty' -w $weights -o ''
refuses 2 'a module without --torch' 'x\.py: add --torch' -w $weights -o x.py
refuses 2 'a model with --torch' 'x\.onnx: --torch writes a Python module' -w $weights -o x.onnx --torch
refuses 2 'no weights' 'no weights and no configuration' -o x.onnx
refuses 2 'another layout' 'nchw' -w $weights -o x.onnx --layout=hwc
refuses 2 'a word' "unexpected argument 'x.onnx'" -w $weights x.onnx
refuses 2 'two networks' 'both name a network' -w $weights -c tiny.conf -m mnist_cnn -o x.onnx

# The input.
refuses 3 'no file' 'cannot be read: No such file' -w nowhere -o x.onnx
refuses 3 'a FIFO as weights' 'is not a safetensors file, but a FIFO' -w pipe -o x.onnx
refuses 2 'another network' 'resnet20_v1' -w $weights -m resnet20_v1 -o x.onnx
# The same tensors without metadata.
header=$(head -c 8 $weights | od -An -tu8 | tr -d ' ')
tail -c +$((header + 9)) $weights >numbers
head -c $((header + 8)) $weights | tail -c +9 | sed 's/"__metadata__":{[^}]*},*//; s/ *$//' >header
bytes=$(wc -c <header)
{
    printf "\\$(printf %03o $((bytes & 255)))\\$(printf %03o $((bytes >> 8)))\\0\\0\\0\\0\\0\\0"
    cat header numbers
} >plain.safetensors
refuses 2 'weights without a network' 'does not contain its network: name it with --model=NAME' -w plain.safetensors -o x.onnx
expect_end 0 'a network by name' export_run -w plain.safetensors -m mnist_cnn -o x.onnx
rm x.onnx
head -c 100000 $weights >cut.safetensors
refuses 3 'a cut file' 'cut\.safetensors: ' -w cut.safetensors -o x.onnx
cp $weights damaged.safetensors
printf '\177\177' | dd of=damaged.safetensors bs=1 seek=$((header + 8 + 1002)) conv=notrunc 2>/dev/null
refuses 3 'a damaged number' 'damaged\.safetensors: conv1\.[a-z]*: holds a number|the file is damaged' -w damaged.safetensors -o x.onnx

# The output.
refuses 5 'an output that exists' 'a\.onnx: exists already: replace it with --force' -w $weights -o a.onnx
refuses 2 'the weights as the output' 'is read by the command: name another output' -w $weights -o $weights --force
refuses 2 'the configuration as the output' 'is read by the command: name another output' -c tiny.conf -o tiny.conf --force
refuses 5 'a folder' 'is a directory: name a regular file' -w $weights -o runs --force
refuses 5 'a FIFO' 'is a FIFO: name a regular file' -w $weights -o pipe --force
refuses 5 'a device' 'is a device: name a regular file' -w $weights -o /dev/full --force
refuses 5 'a folder that is not there' 'nowhere/x\.onnx: cannot be written: No such file' -w $weights -o nowhere/x.onnx
ln -s a.onnx link
refuses 5 'a link' 'is a symbolic link' -w $weights -o link --force
expect_same_file a.onnx b.onnx 'the file behind a link'
if [ -w /dev/full ]; then
    "$pipetrain" export -w $weights -o - >/dev/full 2>err
    code=$? command_line='export -o - >/dev/full'
    expect_code 5 'a full device'
    expect_err 'standard output: cannot be written: No space left'
fi
"$pipetrain" export -w $weights -o - 2>err | head -c 1000 >out
[ "$(wc -c <out)" -eq 1000 ] || fail 'a reader that ends'
for blocks in 1 100 1000; do
    refused=$(ulimit -f $blocks; "$pipetrain" export -w $weights -o x.onnx 2>&1 >/dev/null)
    expect_equal "$(echo "$refused" | grep -c 'x\.onnx: cannot be written: File too large') $(ls -A | grep -c x.onnx)" '1 0' \
        "a limit of $blocks blocks"
    refused=$(ulimit -f $blocks; "$pipetrain" export -w $weights -o a.onnx --force 2>&1 >/dev/null)
    expect_same_file a.onnx b.onnx 'a file that could not be replaced'
done

# Folding: 19 normalisations of resnet20_v1 into convolutions, and none of them.
expect_end 0 'a residual network' run "$pipetrain" -c tiny.conf --set model.name=resnet20_v1 --set run.name=residual \
    --set train.steps=1 --set train.batch=2
expect_end 0 'a residual network' export_run -w runs/residual/weights.safetensors -o r.onnx
expect_out ', 19 of 19 batch normalisations folded$'
expect_end 0 'without folding' export_run -w runs/residual/weights.safetensors -o s.onnx --no-fold
expect_out ', 0 of 19 batch normalisations folded$'
[ "$(wc -c <r.onnx)" -lt "$(wc -c <s.onnx)" ] || fail 'folding leaves no numbers out'
finish
