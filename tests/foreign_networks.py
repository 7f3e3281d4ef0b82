"""Binary networks as people write them in plain PyTorch, from memory of the well-known repositories."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

# --- Hubara et al. (2016): weights keep their real values in an attribute of the parameter.


def binarize(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.sign()


class HubaraLinear(nn.Linear):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        if input.size(1) != 36:
            input.data = binarize(input.data)
        if not hasattr(self.weight, "org"):
            self.weight.org = self.weight.data.clone()  # type: ignore[union-attr]
        self.weight.data = binarize(self.weight.org)  # type: ignore[union-attr, arg-type]
        out = F.linear(input, self.weight)
        if self.bias is not None:
            self.bias.org = self.bias.data.clone()  # type: ignore[union-attr]
            out += self.bias.view(1, -1).expand_as(out)
        return out


class HubaraConv2d(nn.Conv2d):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        if input.size(1) != 1:
            input.data = binarize(input.data)
        if not hasattr(self.weight, "org"):
            self.weight.org = self.weight.data.clone()  # type: ignore[union-attr]
        self.weight.data = binarize(self.weight.org)  # type: ignore[union-attr, arg-type]
        out = F.conv2d(input, self.weight, None, self.stride, self.padding, self.dilation, self.groups)
        if self.bias is not None:
            self.bias.org = self.bias.data.clone()  # type: ignore[union-attr]
            out += self.bias.view(1, -1, 1, 1).expand_as(out)
        return out


class HubaraMlp(nn.Module):
    """The dense network of the repository's MNIST example; its last layer is real."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.bn1, self.htanh1 = HubaraLinear(36, 40), nn.BatchNorm1d(40), nn.Hardtanh()
        self.fc2, self.bn2, self.htanh2 = HubaraLinear(40, 33), nn.BatchNorm1d(33), nn.Hardtanh()
        self.drop = nn.Dropout(0.5)
        self.fc3 = HubaraLinear(33, 20)
        self.bn3, self.htanh3 = nn.BatchNorm1d(20), nn.Hardtanh()
        self.fc4 = nn.Linear(20, 10)
        self.logsoftmax = nn.LogSoftmax(dim=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.view(-1, 6 * 6)
        x = self.htanh1(self.bn1(self.fc1(x)))
        x = self.htanh2(self.bn2(self.fc2(x)))
        x = self.drop(self.fc3(x))
        x = torch.sign(self.htanh3(self.bn3(x)))
        return self.logsoftmax(self.fc4(x))  # type: ignore[no-any-return]


class HubaraVgg(nn.Module):
    """A small network of the order of its VGG: convolution, pool, norm, Hardtanh; binary scores with a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            HubaraConv2d(1, 8, kernel_size=3, stride=1, padding=1, bias=True),
            nn.BatchNorm2d(8),
            nn.Hardtanh(inplace=True),
            HubaraConv2d(8, 12, kernel_size=3, padding=1, bias=True),
            nn.MaxPool2d(kernel_size=2, stride=2),
            nn.BatchNorm2d(12),
            nn.Hardtanh(inplace=True),
        )
        self.classifier = nn.Sequential(
            HubaraLinear(12 * 3 * 3, 24, bias=True),
            nn.BatchNorm1d(24),
            nn.Hardtanh(inplace=True),
            HubaraLinear(24, 10, bias=True),
            nn.BatchNorm1d(10, affine=False),
            nn.LogSoftmax(dim=1),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.features(x)
        x = x.view(-1, 12 * 3 * 3)
        return self.classifier(x)  # type: ignore[no-any-return]


# --- XNOR-Net without K: a scale for each output channel, pool before the norm of the next block.


class BinActive(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, input: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(input)
        return input.sign()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        (input,) = ctx.saved_tensors
        return grad * (input.abs() < 1)


class XnorConv2d(nn.Conv2d):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        centred = self.weight - self.weight.mean(1, keepdim=True)
        alpha = centred.abs().mean((1, 2, 3), keepdim=True)
        weight = alpha * torch.where(centred >= 0, 1.0, -1.0)
        return F.conv2d(x, weight, self.bias, self.stride, self.padding)


class XnorBlock(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.bn = nn.BatchNorm2d(inputs, eps=1e-4, momentum=0.1, affine=True)
        self.conv = XnorConv2d(inputs, outputs, 3, padding=1)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.bn(x)
        x = BinActive.apply(x)  # type: ignore[no-untyped-call]
        return self.relu(self.conv(x))  # type: ignore[no-any-return]


class XnorNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = XnorConv2d(1, 8, 3, bias=False)
        self.block = XnorBlock(8, 10)
        self.pool = nn.MaxPool2d(2)
        self.last = nn.Sequential(nn.BatchNorm2d(10), nn.Hardtanh(), nn.Flatten())
        self.fc = nn.Linear(10 * 2 * 2, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.pool(self.block(self.stem(x)))
        return self.fc(BinActive.apply(self.last(x)))  # type: ignore[no-any-return, no-untyped-call]


# --- IR-Net: weights are standardised, and their scale is a power of two for each channel.


class BinaryQuantize(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, input: torch.Tensor, k: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(input, k, t)
        return torch.sign(input)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        input, k, t = ctx.saved_tensors
        return k * t * (1 - torch.pow(torch.tanh(input * t), 2)) * grad, None, None


class IRConv2d(nn.Conv2d):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.k = torch.tensor([10]).float()
        self.t = torch.tensor([0.1]).float()

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        w = self.weight
        bw = w - w.view(w.size(0), -1).mean(-1).view(w.size(0), 1, 1, 1)
        bw = bw / bw.view(bw.size(0), -1).std(-1).view(bw.size(0), 1, 1, 1)
        sw = torch.pow(
            torch.tensor([2] * bw.size(0)).float(),
            (torch.log(bw.abs().view(bw.size(0), -1).mean(-1)) / torch.log(torch.tensor(2.0))).round().float(),
        ).view(bw.size(0), 1, 1, 1)
        bw = BinaryQuantize.apply(bw, self.k, self.t)  # type: ignore[no-untyped-call]
        if input.size(1) > 1:
            input = BinaryQuantize.apply(input, self.k, self.t)  # type: ignore[no-untyped-call]
        return F.conv2d(input, bw * sw, self.bias, self.stride, self.padding, self.dilation, self.groups)


class IRNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = IRConv2d(1, 8, kernel_size=3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.nonlinear = nn.Hardtanh(inplace=True)
        self.conv2 = IRConv2d(8, 9, kernel_size=3, stride=2, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(9)
        self.fc = nn.Linear(81, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.nonlinear(self.bn1(self.conv1(x)))
        x = self.nonlinear(self.bn2(self.conv2(x)))
        x = x.sign()
        return self.fc(x.view(x.size(0), -1))  # type: ignore[no-any-return]


# --- ReActNet: learnable shifts, RPReLU, a sign whose gradient is that of a polynomial, weights through an estimator.


class LearnableBias(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(0.3 * torch.randn(1, channels, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.bias.expand_as(x)


class BinaryActivation(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out_forward = torch.sign(x)
        mask1, mask2, mask3 = x < -1, x < 0, x < 1
        out1 = (-1) * mask1.type(torch.float32) + (x * x + 2 * x) * (1 - mask1.type(torch.float32))
        out2 = out1 * mask2.type(torch.float32) + (-x * x + 2 * x) * (1 - mask2.type(torch.float32))
        out3 = out2 * mask3.type(torch.float32) + 1 * (1 - mask3.type(torch.float32))
        return out_forward.detach() - out3.detach() + out3


class HardBinaryConv(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.stride, self.padding, self.shape = 1, 1, (outputs, inputs, 3, 3)
        self.weight = nn.Parameter(torch.rand(outputs * inputs * 9, 1) * 0.1 - 0.05)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        real = self.weight.view(self.shape)
        scale = torch.mean(torch.mean(torch.mean(abs(real), dim=3, keepdim=True), dim=2, keepdim=True), dim=1,
                           keepdim=True).detach()  # fmt: skip
        no_grad = scale * torch.sign(real)
        clipped = torch.clamp(real, -1.0, 1.0)
        weights = no_grad.detach() - clipped.detach() + clipped
        return F.conv2d(x, weights, stride=self.stride, padding=self.padding)


class ReActBlock(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.move11, self.binary_activation = LearnableBias(inputs), BinaryActivation()
        self.binary_conv, self.bn1 = HardBinaryConv(inputs, outputs), nn.BatchNorm2d(outputs)
        self.move12, self.prelu, self.move13 = LearnableBias(outputs), nn.PReLU(outputs), LearnableBias(outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.bn1(self.binary_conv(self.binary_activation(self.move11(x))))
        return self.move13(self.prelu(self.move12(out)))  # type: ignore[no-any-return]


class ReActChain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = HardBinaryConv(1, 6)
        self.norm = nn.BatchNorm2d(6)
        self.blocks = nn.ModuleList([ReActBlock(6, 7), ReActBlock(7, 5)])
        self.sign = BinaryActivation()
        self.fc = nn.Linear(180, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.first(x))
        for block in self.blocks:
            x = block(x)
        return self.fc(torch.flatten(self.sign(x), 1))  # type: ignore[no-any-return]


# --- Larq's tutorial, said in torch: scales of one, ste_sign, pool before the norm, a binary last layer.


def ste_sign(x: torch.Tensor) -> torch.Tensor:
    clipped = x.clamp(-1, 1)
    return clipped + (torch.where(x >= 0, torch.ones_like(x), -torch.ones_like(x)) - clipped).detach()


class QuantConv2d(nn.Module):
    def __init__(self, inputs: int, outputs: int, first: bool = False) -> None:
        super().__init__()
        self.kernel = nn.Parameter(torch.randn(outputs, inputs, 3, 3))
        self.first = first

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x if self.first else ste_sign(x)
        return F.conv2d(x, ste_sign(self.kernel))


class QuantDense(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.kernel = nn.Parameter(torch.randn(inputs, outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return ste_sign(x) @ ste_sign(self.kernel)


class LarqNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = QuantConv2d(1, 8, first=True), nn.BatchNorm2d(8, affine=False)
        self.conv2, self.bn2 = QuantConv2d(8, 16), nn.BatchNorm2d(16, affine=False)
        self.dense1, self.bn3 = QuantDense(16, 24), nn.BatchNorm1d(24, affine=False)
        self.dense2, self.bn4 = QuantDense(24, 10), nn.BatchNorm1d(10, affine=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.bn1(self.conv1(x))
        x = self.bn2(F.max_pool2d(self.conv2(x), 2)).flatten(1)
        x = self.bn3(self.dense1(x))
        return F.softmax(self.bn4(self.dense2(x)), dim=-1)


# --- Functions only, one sign for all, a scale of the whole layer, thresholds that are not 0.


class Functional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w1 = nn.Parameter(torch.randn(9, 1, 3, 3))
        self.w2 = nn.Parameter(torch.randn(12, 144))
        self.w3 = nn.Parameter(torch.randn(10, 12))
        self.scale = nn.Parameter(torch.tensor(0.37))
        self.limit = nn.Parameter(torch.randn(9, 1, 1))
        for name in ("mean", "var", "gamma", "beta"):
            self.register_buffer(name, torch.rand(12) + 0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        w1 = (self.w1 > 0).to(x) * 2 - 1
        x = F.conv2d(x, w1 * self.scale)
        x = (x > self.limit).float() * 2.0 - 1.0
        w2 = torch.where(self.w2 < 0, -1.0, 1.0) * self.w2.abs().mean(dim=1, keepdim=True)
        x = F.linear(x.reshape(x.shape[0], -1), w2.to(x), torch.linspace(-1, 1, 12).to(x))
        x = F.batch_norm(x, self.mean, self.var, self.gamma, self.beta, training=False)  # type: ignore[arg-type]
        x = F.leaky_relu(x, 0.1) / 3 - 0.05
        x = torch.sign(torch.sign(x) + 0.1)
        return F.linear(x, self.w3.to(x))


# --- A wrapper that replaces the forward of ordinary layers, one sign module for every layer, bits of 0 and 1.


class BinarizedModule(nn.Module):
    """Binarises the weights of the layer that it holds before each call."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        self.org = nn.Parameter(module.weight.detach().clone())  # type: ignore[operator, union-attr]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            self.module.weight.copy_(torch.where(self.org >= 0, 0.25, -0.25))  # type: ignore[operator, union-attr]
        return self.module(x)  # type: ignore[no-any-return]


class Heaviside(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        out = torch.zeros_like(x)
        out[x >= 0] = 1.0
        return out

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad


class ZeroOne(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return Heaviside.apply(x)  # type: ignore[no-any-return, no-untyped-call]


class Wrapped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.act = ZeroOne()
        self.l1 = BinarizedModule(nn.Linear(36, 20))
        self.n1 = nn.BatchNorm1d(20)
        self.l2 = BinarizedModule(nn.Linear(20, 18))
        self.n2 = nn.BatchNorm1d(18)
        self.l3 = BinarizedModule(nn.Linear(18, 10))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.act(self.n1(self.l1(torch.flatten(x, 1))))
        x = self.act(self.n2(self.l2(x)))
        return self.l3(x)  # type: ignore[no-any-return]


NETWORKS: dict[str, type[nn.Module]] = {
    cls.__name__: cls for cls in (HubaraMlp, HubaraVgg, XnorNet, IRNet, ReActChain, LarqNet, Functional, Wrapped)
}


def network(name: str, seed: int = 0) -> nn.Module:
    """One of the networks with random weights and lively norms, in training mode as after training."""
    torch.manual_seed(seed)
    model = NETWORKS[name]()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            module.running_mean = torch.randn(module.num_features)
            module.running_var = torch.rand(module.num_features) * 4 + 0.5
            if module.affine:
                module.weight.data = torch.randn(module.num_features)
                module.bias.data = 0.3 * torch.randn(module.num_features)
    return model
