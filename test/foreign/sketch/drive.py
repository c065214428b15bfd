"""Writes with the client of proto/README.md, which the test has put into client.py, until both sides have everything."""
import asyncio
import json
import os
import sys

from client import Client

ENV = os.environ
BURST = 10


class Driver:
    def __init__(self):
        self.store = {"historyId": "", "token": "", "convs": {}, "outgoing": {}, "failed": {}}
        self.shown = []
        self.client = Client(ENV["PETREL_URL"], ENV["TOKEN"], self.store, self.save, self.shown.append)
        self.targets = [("user", ENV["PEER"]), ("conv", ENV["GROUP"])]

    def save(self):
        part = ENV["STORE"] + ".part"
        with open(part, "w") as f:
            json.dump(self.store, f)
        os.replace(part, ENV["STORE"])

    async def write(self):
        count = int(ENV["MESSAGES"])
        for i in range(count):
            for kind, to in self.targets:
                self.client.compose(kind, to, f"{ENV['ME']} {i}")
            if i % BURST == BURST - 1:
                await self.until(lambda: len(self.store["outgoing"]) < BURST)
        await self.until(lambda: not self.store["outgoing"] and len([m for m in self.shown if "text" in m]) >= 2 * 2 * count)

    async def until(self, ok):
        while not ok():
            await asyncio.sleep(0.01)


async def main():
    d = Driver()
    run = asyncio.create_task(d.client.run())
    write = asyncio.create_task(d.write())
    await asyncio.wait([run, write], return_when=asyncio.FIRST_COMPLETED)
    if run.done():
        sys.exit(f"the client has ended: {run.result()}")
    write.result()
    run.cancel()
    print(json.dumps({"shown": d.shown, "failed": list(d.store["failed"].values())}))


asyncio.run(main())
