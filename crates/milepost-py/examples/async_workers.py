"""Workers for asyncio: each URL is one task, so a crash repeats only what was not done."""

from __future__ import annotations

import asyncio

import milepost.aio

URLS = [f"https://example.org/{n}" for n in range(6)]


async def download(url: str) -> int:
    await asyncio.sleep(0.01)
    return len(url)


async def main() -> None:
    async with milepost.aio.open() as mp, mp.run("downloads") as run:
        limit = asyncio.Semaphore(3)

        async def one(url: str) -> None:
            async with limit:
                if await run.is_done(url):
                    return
                async with run.task(url):
                    size = await download(url)
                    await run.record(f"GET {url}", 0, output=f"{size} bytes")

        await asyncio.gather(*(one(url) for url in URLS))
        done = [task for task in await run.tasks() if task.is_done]
        print(f"{len(done)} of {len(URLS)} downloaded")


if __name__ == "__main__":
    asyncio.run(main())
