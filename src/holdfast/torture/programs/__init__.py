"""What a campaign's processes run: the application with its tasks, producers, lock contenders, an operator.

Each writes down what it does and sees (`witness`), and knows nothing of the faults that will meet it. Workers
and schedulers are those of the command line, with the application that is here.
"""
