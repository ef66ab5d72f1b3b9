"""What the tests are made of: samples of kernels, and the nets that find faults in tilegen without sharing its code."""
