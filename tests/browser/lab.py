"""One JupyterLab server and one browser page, driven through Lab's own commands.

Border: the only importer of playwright. Everything (settings, kernels' runtime, profile,
notebooks) lives in a folder that the caller gives; nothing of the user's is read. Lab is
loaded once and notebooks are opened in it: a load takes seconds.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
from playwright.sync_api import Browser, Locator, Page, sync_playwright

START_SECONDS = 60
WAIT_MILLISECONDS = 20_000
CHROMIUM_ARGUMENTS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
SETTINGS = {
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False, "doNotDisturbMode": True},
    "docmanager-extension/plugin": {"autosave": False},
}
START = """([command, arguments]) => {
    window.commandDone = null;
    window.jupyterapp.commands.execute(command, arguments).then(
        () => { window.commandDone = 'yes' },
        error => { window.commandDone = `${error}` },
    );
}"""
CURRENT = "window.jupyterapp?.shell?.currentWidget"
# The toolbar shows "idle" before a kernel is attached; the session itself knows.
KERNEL_IS_IDLE = f"""() => {{
    const context = {CURRENT}?.sessionContext, kernel = context?.isReady && context.session?.kernel;
    return Boolean(kernel) && kernel.connectionStatus === 'connected' && kernel.status === 'idle';
}}"""

# Lab keeps one widget manager a notebook and shows it to its renderers alone.
MODELS = f"""
    const find = widget => widget._manager ?? [...(widget.layout ?? [])].map(find).find(Boolean);
    const manager = await find({CURRENT}.content).promise;
    return Object.keys(manager._models).length;
"""
# A colour is read by painting a pixel: what the sheet says in color-mix() or in variables comes out as bytes.
FAINT = """(roots, least) => {
    const context = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
    const bytes = colour => {
        context.clearRect(0, 0, 1, 1);
        context.fillStyle = colour;
        context.fillRect(0, 0, 1, 1);
        const [red, green, blue, alpha] = context.getImageData(0, 0, 1, 1).data;
        return [red, green, blue, alpha / 255];
    };
    const over = ([red, green, blue, alpha], below) =>
        [red, green, blue].map((value, index) => value * alpha + below[index] * (1 - alpha));
    const luminance = colour => colour
        .map(value => value / 255)
        .map(value => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4)
        .reduce((sum, value, index) => sum + value * [0.2126, 0.7152, 0.0722][index], 0);
    const contrast = (element, pseudo) => {
        const above = [];
        for (let one = element; one; one = one.parentElement) above.unshift(one);
        let ground = [255, 255, 255], opacity = 1;
        for (const one of above) {
            const style = getComputedStyle(one);
            ground = over(bytes(style.backgroundColor), ground);
            opacity *= style.opacity;
        }
        const style = getComputedStyle(element, pseudo);
        const [red, green, blue, alpha] = bytes(style.color);
        const text = over([red, green, blue, alpha * opacity * (pseudo ? style.opacity : 1)], ground);
        const [light, dark] = [luminance(text), luminance(ground)].sort((one, other) => other - one);
        return (light + 0.05) / (dark + 0.05);
    };
    const speaks = (element, pseudo) => pseudo
        ? getComputedStyle(element, pseudo).content !== 'none'
        : [...element.childNodes].some(node => node.nodeType === Node.TEXT_NODE && node.textContent.trim());
    return roots.flatMap(root => [root, ...root.querySelectorAll('*')])
        .filter(element => element.checkVisibility())
        .flatMap(element => [null, '::before', '::after'].map(pseudo => [element, pseudo]))
        .filter(([element, pseudo]) => speaks(element, pseudo))
        .map(([element, pseudo]) => [contrast(element, pseudo), element, pseudo])
        .filter(([value]) => value < least)
        .map(([value, element, pseudo]) => `${value.toFixed(1)}: ${element.className}${pseudo ?? ''}: ${element.textContent.slice(0, 40)}`);
}"""

TOO_WIDE = """elements => elements.filter(element => element.checkVisibility() && element.clientWidth)
    .map(element => [element, element.scrollWidth - element.clientWidth,
        element.getBoundingClientRect().right - element.closest('.jp-OutputArea').getBoundingClientRect().right])
    .filter(([, scrolls, passes]) => Math.max(scrolls, passes) > 1)
    .map(([element, scrolls, passes]) => `scrolls ${scrolls} px, passes ${passes} px: ${element.tagName} ${element.className}`)
"""


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """Run a JupyterLab whose notebooks are in `folder`/root; yield its address, without a slash."""
    for name, body in SETTINGS.items():
        file = folder / "settings/@jupyterlab" / f"{name}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(body))
    root = folder / "root"
    root.mkdir()
    port = _free_port()
    with (folder / "server.log").open("w") as log:
        process = subprocess.Popen(_command(port, root), env=environment(folder), cwd=root, stdout=log, stderr=log)
        try:
            _wait_until_up(process, f"http://127.0.0.1:{port}", folder / "server.log")
            yield f"http://127.0.0.1:{port}"
        finally:
            # The server ends its kernels itself when it is asked to end.
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _command(port: int, root: Path) -> list[str]:
    return [
        *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1", f"--port={port}"),
        *("--ServerApp.port_retries=0", "--IdentityProvider.token=", "--ServerApp.disable_check_xsrf=True"),
        *("--ServerApp.terminals_enabled=False", f"--ServerApp.root_dir={root}"),
        *("--LabApp.expose_app_in_browser=True", "--JupyterNotebookApp.expose_app_in_browser=True", "--LabApp.extension_manager=readonly"),
    ]


def environment(folder: Path) -> dict[str, str]:
    """Return the variables that keep a Jupyter program within `folder`."""
    own = {
        "JUPYTER_CONFIG_DIR": "config",
        "JUPYTER_DATA_DIR": "data",
        "JUPYTER_RUNTIME_DIR": "runtime",
        "JUPYTERLAB_SETTINGS_DIR": "settings",
        "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
        "IPYTHONDIR": "ipython",
        "HOME": "home",
    }
    (folder / "home").mkdir(exist_ok=True)
    return {
        **os.environ,
        **{name: str(folder / place) for name, place in own.items()},
        "JUPYTER_PLATFORM_DIRS": "1",
        "PATH": os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"],
    }


def _wait_until_up(process: subprocess.Popen[bytes], address: str, log: Path) -> None:
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        if process.poll() is not None:
            break
        try:
            direct.open(f"{address}/api/status", timeout=2).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise RuntimeError(f"JupyterLab: did not start:\n{log.read_text()[-2000:]}")


@contextmanager
def browser(executable: str) -> Iterator[Browser]:
    """Run headless Chromium.

    Until it is left, playwright keeps an event loop running in this thread, so no code of
    asyncio may be called there meanwhile.
    """
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=executable, headless=True, args=CHROMIUM_ARGUMENTS)
        try:
            yield chromium
        finally:
            chromium.close()


class Lab:
    """JupyterLab loaded in a page. `foreign` lists requests to anything but the server."""

    def __init__(self, address: str, folder: Path, page: Page) -> None:
        self.address, self.root, self.page = address, folder / "root", page
        self.environment = environment(folder)
        self.foreign: list[str] = []
        own = (address, address.replace("http", "ws", 1), "data:", "blob:")
        page.context.on("request", lambda request: None if request.url.startswith(own) else self.foreign.append(request.url))
        page.set_default_timeout(WAIT_MILLISECONDS)
        self.load()

    def load(self) -> None:
        """Load Lab anew, with an empty workspace."""
        self.page.goto(f"{self.address}/lab?reset", wait_until="domcontentloaded")
        self.page.wait_for_function("() => window.jupyterapp?.shell?.layoutModified && document.querySelector('.jp-LauncherCard')")

    def execute(self, command: str, **arguments: Any) -> None:
        """Run one of Lab's commands and wait until it is done."""
        # Not awaited by evaluate(), which knows no timeout.
        self.page.evaluate(START, [command, arguments])
        self.page.wait_for_function("() => window.commandDone !== null")
        done = self.page.evaluate("window.commandDone")
        if done != "yes":
            raise RuntimeError(f"{command}: {done}")

    def write(self, name: str, *cells: str) -> Path:
        """Write a notebook of code cells into the root."""
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
        notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
        file = self.root / name
        nbformat.write(notebook, file)
        return file

    def open(self, name: str) -> Notebook:
        """Open a notebook of the root and wait for its kernel."""
        self.execute("docmanager:open", path=name, factory="Notebook")
        return self._shown(name)

    def open_in_notebook7(self, name: str) -> Notebook:
        """Open a notebook of the root in Notebook 7, which is a page of its own; `load` goes back to Lab."""
        self.page.goto(f"{self.address}/notebooks/{name}", wait_until="domcontentloaded")
        return self._shown(name)

    def _shown(self, name: str) -> Notebook:
        self.page.wait_for_function(f"name => {CURRENT}?.context?.path === name && {CURRENT}.context.isReady", arg=name)
        self.page.wait_for_function(KERNEL_IS_IDLE)
        return Notebook(self)

    def tidy(self) -> None:
        """End every kernel and close every notebook unsaved."""
        self.page.evaluate("""async () => {
            const { shell, serviceManager } = window.jupyterapp;
            for (const panel of [...shell.widgets('main')].filter(one => one.sessionContext)) {
                panel.context.model.dirty = false;
                panel.close();
            }
            await serviceManager.sessions.shutdownAll();
        }""")
        self.page.wait_for_function("() => !document.querySelector('.jp-NotebookPanel')")

    def run(self, name: str, *cells: str) -> Notebook:
        """Write a notebook, open it and run all its cells."""
        self.write(name, *cells)
        notebook = self.open(name)
        notebook.run()
        return notebook


class Notebook:
    """The notebook in front: what a person does with it, and what is to be seen in it."""

    def __init__(self, lab: Lab) -> None:
        self.lab, self.page = lab, lab.page
        self.panel = lab.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")

    def run(self) -> None:
        self.lab.execute("notebook:run-all-cells")

    def end_kernel(self) -> None:
        self.page.evaluate(f"() => {CURRENT}.sessionContext.shutdown()")

    def find(self, selector: str) -> Locator:
        return self.panel.locator(selector)

    def outputs(self, cell: int) -> Locator:
        return self.panel.locator(".jp-CodeCell").nth(cell).locator(".jp-OutputArea-output")

    def text(self, cell: int) -> str:
        """Return what a reader sees of a cell's outputs."""
        return self.panel.locator(".jp-CodeCell").nth(cell).locator(".jp-Cell-outputArea").inner_text()

    def save(self) -> None:
        self.lab.execute("docmanager:save")

    def models(self) -> int:
        """Return the number of widget models that the page holds for this notebook."""
        return int(self.page.evaluate(f"async () => {{ {MODELS} }}"))

    def faint(self, selector: str, least: float) -> list[str]:
        """Return "contrast: element: text" of all text within `selector` below the least contrast (WCAG: 1 to 21)."""
        return [str(words) for words in self.find(selector).evaluate_all(FAINT, least)]

    def too_wide(self, selector: str) -> list[str]:
        """Return the visible elements whose content is cut or scrolls sideways, or that pass the output's right edge."""
        return [str(words) for words in self.find(f"{selector}").evaluate_all(TOO_WIDE)]
