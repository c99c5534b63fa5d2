#!/bin/sh
# pipetrain export --torch: the module is valid Python, names its layers and classes, and is whole or not there. What PyTorch
# computes with it is compared by make check-peers.
export_as=--torch
. "$(dirname "$0")/export.sh"

has_line() {
    grep -qxF -- "$2" "$1" || fail "$1 has no line '$2'"
}

expect_end 0 'weights alone' export_run -w $weights -o a.py
expect_out "^a\.py: mnist_cnn from $weights, [0-9.]+ KiB, a module for PyTorch that loads the weights from that file\$"
expect_err_lines 0
has_line a.py 'MODEL = "mnist_cnn"'
has_line a.py '    "class9",'
has_line a.py '        self.conv1 = nn.Conv2d(1, 32, 3)'
has_line a.py '        self.dropout1 = nn.Dropout(0.25)'
has_line a.py '        x = self.relu1(self.conv1(x))'
has_line a.py '    if image.mode.startswith("I"):          # 16 bits: the high ones'
has_line a.py '    image = image.convert("L")'
grep -q RENAMED a.py && fail 'a.py renames tensors'

# The same bytes in any way.
expect_end 0 'the weights of the run' export_run -c tiny.conf -o b.py
expect_same_file a.py b.py 'the weights of the run'
"$pipetrain" export --torch -w $weights -o - >c.py || fail 'standard output'
expect_same_file a.py c.py 'standard output'
expect_end 0 'a replaced file' export_run -w $weights -o c.py --force
expect_same_file a.py c.py 'a replaced file'

# Names of others are literals. The file of names ends with one that would close its own.
printf 'a"]\nb\\\nc\nd\ne\nf\ng\n""" + x\ni\n\303\244\n' >names.txt
expect_end 0 'other names' export_run -w $weights -o d.py --set data.class_names=names.txt \
    --set model.weights_differ=yes
has_line d.py '    "a\"]",'
has_line d.py '    "b\\",'
has_line d.py '    "\"\"\" + x",'
has_line d.py "    \"$(printf '\303\244')\","

# Layers with names that Python and PyTorch have.
cat >names.net <<'END'
model names
image 28x28x1
classes 10
conv2d class.1x filters 4 kernel 3
batch_norm train
scale forward
relu class.1x.relu
dense import units classes
softmax_loss loss
END
expect_end 0 'names of Python' run "$pipetrain" -c tiny.conf --set model.name= --set model.file=names.net --set run.dir=runs/names
expect_end 0 'the module with them' export_run -w runs/names/weights.safetensors -o e.py
has_line e.py '        self._modules["train"] = nn.BatchNorm2d(4)'
has_line e.py '        self._parameters["forward"] = nn.Parameter(torch.ones(4, 1, 1))'

if command -v python3 >/dev/null 2>&1; then
    for module in a d e; do
        python3 -c "import ast; ast.parse(open('$module.py', encoding='utf-8').read())" || fail "$module.py is no Python"
    done
    expect_equal "$(python3 -c "import ast
body = ast.parse(open('d.py', encoding='utf-8').read()).body
print([ast.literal_eval(line.value)[0] for line in body
       if isinstance(line, ast.Assign) and line.targets[0].id == 'CLASSES'][0])")" 'a"]' 'the first class in Python'
else
    echo 'no python3: the modules are not parsed'
fi

refuses 5 'a file that exists' 'a\.py' -w $weights -o a.py
refuses 2 'the layout of ONNX' 'leave them out with --torch' -w $weights -o n.py --layout=nhwc
refuses 2 'the input of ONNX' 'leave them out with --torch' -w $weights -o n.py --input=float
refuses 2 'the norms of ONNX' 'leave them out with --torch' -w $weights -o n.py --no-fold
refuses 2 'weights of another network' "are not weights of 'resnet20_v1'" -w $weights -m resnet20_v1 -o n.py
sed 's/ train$/ block.training/' names.net >training.net
expect_end 0 'a layer with the name of a state' run "$pipetrain" -c tiny.conf --set model.name= --set model.file=training.net \
    --set run.dir=runs/training
refuses 2 'a name that PyTorch sets' "layer 'block\.training'.*give the layer another name" -w runs/training/weights.safetensors -o n.py
head -c 100000 $weights >cut.safetensors
refuses 3 'weights that were cut' 'cut\.safetensors' -w cut.safetensors -o n.py
refuses 5 'no such folder' 'none/n\.py' -w $weights -o none/n.py
finish
