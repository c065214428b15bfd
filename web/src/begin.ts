performance.mark('petrel-script') // where the script begins, before anything else of it runs: test/speed.ts measures from here
